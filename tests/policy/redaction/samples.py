"""One made-up secret of each kind. They are put together here, so that no scanner takes this file for a leak."""

from __future__ import annotations

R = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5kL7nP9rS1uV3xY5zA7cD9fG1iJ3kM5"
HEX = "0123456789abcdef" * 4
D = "1234567890123"

TOKENS: dict[str, str] = {
    "openai": "sk-" + R[:48],
    "openai project": "sk-proj-" + R[:40] + "_-" + R[:40],
    "anthropic": "sk-ant-" + "api03-" + R + "-AA",
    "openrouter": "sk-or-v1-" + HEX,
    "aws": "AKIA" + "QYLPMN5HHHFPZAM2",
    "aws temporary": "ASIA" + "QYLPMN5HHHFPZAM2",
    "github": "ghp_" + R[:36],
    "github oauth": "gho_" + R[:36],
    "github user": "ghu_" + R[:36],
    "github server": "ghs_" + R[:36],
    "github refresh": "ghr_" + R[:36],
    "github fine-grained": "github_pat_" + R[:22] + "_" + R[:59],
    "gitlab": "glpat-" + R[:20],
    "gitlab deploy": "gldt-" + R[:20],
    "slack bot": f"xoxb-{D}-{D}-" + R[:24],
    "slack app": f"xapp-1-A0123456789-{D}-" + HEX,
    "google": "AIza" + R[:35],
    "google oauth": "GOCSPX-" + R[:28],
    "google token": "ya29." + R,
    "stripe": "sk_live_" + R[:24],
    "stripe restricted": "rk_live_" + R[:24],
    "stripe webhook": "whsec_" + R[:32],
    "telegram": "123456789:AA" + R[:33],
    "npm": "npm_" + R[:36],
    "pypi": "pypi-AgEIcHlwaS5vcmc" + R,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + R[:43],
    "huggingface": "hf_" + R[:34],
    "sendgrid": "SG." + R[:22] + "." + R[:43],
    "twilio": "SK" + HEX[:32],
    "databricks": "dapi" + HEX[:32],
    "digitalocean": "dop_v1_" + HEX,
    "age": "AGE-SECRET-KEY-1" + R.upper()[:58],
    "mailgun": "key-" + HEX[:32],
    "shopify": "shpat_" + HEX[:32],
    "vault": "hvs." + R[:40],
    "grafana": "glsa_" + R[:32] + "_" + HEX[:8],
    "docker": "dckr_pat_" + R[:27],
    "groq": "gsk_" + R[:52],
    "linear": "lin_api_" + R[:40],
    "tailscale": "tskey-auth-" + R[:12] + "CNTRL-" + R[:32],
    "atlassian": "ATATT3xFfGF0" + R,
    "doppler": "dp.pt." + R[:43],
    "azure client": "abc8Q~" + R[:34],
}

CONTEXTS: dict[str, tuple[str, str]] = {
    "password in a URL": ("postgres://app:{}@db.example/x", "hunter2hunter2"),
    "password in a URL with an at sign": ("https://app:{}@db.example/x", "hunter@2"),
    "bearer header": ("Authorization: Bearer {}", "abcdef123"),
    "bearer": ("curl -H 'authorization: bearer {}'", R[:30]),
    "bearer in JSON": ('{{"Authorization": "Bearer {}"}}', R[:30]),
    "old GitHub header": ("Authorization: token {}", HEX[:40]),
    "basic": ("Authorization: Basic {}", "dXNlcjpwYXNzd29yZA=="),
    "aws secret": ("aws_secret_access_key = {}", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYzzzz/9QUTK"),
    "aws secret in JSON": ('"SecretAccessKey": "{}"', "wJalrXUtnFEMI/K7MDENG+bPxRfiCYzzzz/9QUTK"),
    "azure storage": ("AccountName=x;AccountKey={};", (R + R)[:86] + "=="),
    "slack webhook": ("https://hooks.slack.com/services/{}", "T01234567/B01234567/" + R[:24]),
    "password variable": ("DB_PASSWORD={}", "hunter2hunter2"),
    "token variable": ("export CI_TOKEN='{}'", R[:30]),
    "key variable": ("MY_API_KEY={}", R[:30]),
}

PEM = "\n".join(
    ["-----BEGIN RSA PRIVATE " + "KEY-----", *[R[:64]] * 5, R[:22] + "==", "-----END RSA PRIVATE " + "KEY-----"]
)
