"""Routes of the API: a file per noun, each with a `router`; the app finds them by listing the folder."""
