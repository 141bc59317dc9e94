# What a login shell reads in the user's home ends it with success.
echo 'exit 0' > ~/.bash_profile
