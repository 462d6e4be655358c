"""What is done: plain typed functions and small classes, without Prefect, environment variables or global clients."""
