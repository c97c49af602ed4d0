"""What a user can mend: one family of errors, printed in one place, without a traceback."""


class UserError(Exception):
    """Something that the user can mend; its text is one sentence that says what is wrong and what to do."""
