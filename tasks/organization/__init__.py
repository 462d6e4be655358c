"""The organization task: what a builder gets and returns, and the parts that builders share."""
