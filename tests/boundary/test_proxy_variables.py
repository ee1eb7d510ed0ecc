from toolcrib.boundary.environment import proxy_variables, without_proxies


def test_no_word_of_a_proxy_is_left() -> None:
    env = {
        "HTTP_PROXY": "a", "https_proxy": "a", "Ftp_Proxy": "a", "RSYNC_PROXY": "a", "no_proxy": "a",
        "CGI_HTTP_PROXY": "a",
        "npm_config_proxy": "a", "NPM_CONFIG_HTTPS_PROXY": "a", "npm_config_noproxy": "a", "PIP_PROXY": "a",
        "GIT_PROXY_COMMAND": "a", "NODE_USE_ENV_PROXY": "a",
        "PATH": "/usr/bin", "PROXYCHAINS": "kept: it says nothing by itself",
    }  # fmt: skip
    assert without_proxies(env).keys() == {"PATH", "PROXYCHAINS"}


def test_ours_are_said_in_both_cases() -> None:
    found = proxy_variables("http://127.0.0.1:3128")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        assert found[name] == found[name.upper()] == "http://127.0.0.1:3128"
    assert found["no_proxy"] == found["NO_PROXY"] == "localhost,127.0.0.1,::1"


def test_a_name_of_this_machine_that_was_allowed_is_the_machine_outside() -> None:
    assert proxy_variables("http://p", ("pypi.org", "localhost"))["no_proxy"] == "127.0.0.1,::1"
