"""Real servers on loopback for tests and benchmarks, and a proxy that breaks what passes through it.

`tests/conftest.py` registers the fixtures of `tests.servers.fixtures` for every test:

| fixture | scope | gives |
|---|---|---|
| `seaweed` | session | a running SeaweedFS S3 server with authentication (`tests.servers.seaweed.Seaweed`) |
| `bucket` | function | the name of a new, empty bucket on it |
| `nginx` | session | a running nginx that serves a folder, with ranges and without (`tests.servers.nginx.Nginx`) |
| `make_proxy` | function | starts a `tests.servers.proxy.FaultProxy` before a port; all are ended afterwards |

    def test_reading(seaweed, bucket, make_proxy):
        seaweed.put(bucket, "a.tif", data)
        proxy = make_proxy(seaweed.port, unavailable=0.1, seed=1)
        options = seaweed.options(endpoint_url=proxy.url)      # storage options for s3fs
        jnrrdz.scan(f"s3://{bucket}/a.tif", storage_options=options)
        assert len(proxy.requests) ...

A server whose program is not there skips the test and says what to install.
"""
