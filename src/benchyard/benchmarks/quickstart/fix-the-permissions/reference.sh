chmod 755 bin/*
chmod 700 keys
chmod 600 keys/*
find docs -type d -exec chmod 755 {} +
find docs -type f -exec chmod 644 {} +
