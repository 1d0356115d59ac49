#!/bin/sh
# Make the secrets that compose.yaml asks for, each random, into docker/secrets. What is there stays.
set -eu
cd "$(dirname "$0")"
umask 022
mkdir -p secrets
# Only this user comes in; the containers get each file by itself, and their users must read it.
chmod 700 secrets
cd secrets

keep() { # NAME: store what comes in, unless the secret is there
    if [ -e "$1" ]; then
        cat > /dev/null
    else
        cat > ".$1.part"
        mv ".$1.part" "$1"
    fi
}
random() { # BYTES, as hexadecimal digits: safe in addresses and files of any form
    od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'
}

random 32 | keep secret_key
random 24 | keep postgres_password
printf 'postgresql://evalhub:%s@postgres:5432/evalhub' "$(cat postgres_password)" | keep database_url
printf 'requirepass %s\n' "$(random 24)" | keep redis_conf
printf 'redis://:%s@redis:6379/0' "$(sed 's/^requirepass //' redis_conf)" | keep broker_url
random 10 | keep s3_access_key_id
random 24 | keep s3_secret_access_key
random 24 | keep metrics_token
# To be filled in by hand, each on one line.
printf '' | keep github_token
printf '' | keep email_url
