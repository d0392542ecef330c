"""Running it: settings, embedded servers, command line, migrations, doctor, demo."""
