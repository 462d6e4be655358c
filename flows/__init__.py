"""When, where and how often: the only room that knows Prefect, and the command line."""
