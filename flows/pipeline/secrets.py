"""Tells the project which values of the environment are secret."""

import os
import re

from schemas.secrets import learn

_SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|AUTH_STRING)$")


def learn_environment() -> None:
    """Remembers the value of every variable whose name says that it is a secret."""
    learn(*(value for name, value in os.environ.items() if _SECRET.search(name.upper())))
