"""Commands of `arena`, one file a subject; `flows.cli` names them."""
