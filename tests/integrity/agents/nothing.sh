# Nothing at all is done.
true
