"""Where figures of papers come from, and the checks that a picture passes before anything else sees it."""
