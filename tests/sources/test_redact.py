"""No credential of a URL in what is said or written; what names the object stays."""

import gc
import re
import urllib.parse

import botocore.config
import botocore.session
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import jnrrdz
from jnrrdz.cli import cli
from jnrrdz.errors import JnrrdzError
from jnrrdz.redact import SHARE_LINKS, bare, dropped_names, hidden, is_share_link, printable, redacted
from tests.growth import assert_linear
from tests.servers.seaweed import ADMIN
from tests.writers import tiff_bytes

HOST = "https://h.org/d/a.tif"
SAS = "sv=2024-11-04&ss=b&srt=o&sp=r&se=2026-01-01T00%3A00%3A00Z&st=x&spr=https&skoid=1&sig=SECRET%3D"
V4 = "X-Amz-Algorithm=AWS4&X-Amz-Credential=SECRET%2F1&X-Amz-Security-Token=SECRET&X-Amz-Signature=SECRET"

JWT = "eyJSECRET.eyJSECRET.SECRET"

SECRETS = {
    # what each provider's signed URLs look like
    "AWS v4": (f"{HOST}?{V4}", HOST),
    "AWS v4 of a version": (f"{HOST}?versionId=7&{V4}&response-content-type=a", f"{HOST}?versionId=7"),
    "AWS v4 in lower case": (f"{HOST}?{V4.lower().replace('secret', 'SECRET')}", HOST),
    "AWS v2": (f"{HOST}?AWSAccessKeyId=SECRET&Signature=SECRET&Expires=17", HOST),
    "AWS post policy": (f"{HOST}?policy=SECRET&x-amz-meta-a=SECRET", HOST),
    "Google": (f"{HOST}?X-Goog-Signature=SECRET&X-Goog-Credential=SECRET&generation=3", f"{HOST}?generation=3"),
    "Google v2": (f"{HOST}?GoogleAccessId=SECRET&Expires=1&Signature=SECRET", HOST),
    "Google user project": (f"{HOST}?userProject=SECRET", HOST),
    "Google upload": (f"{HOST}?upload_id=SECRET", HOST),
    "CloudFront": (f"{HOST}?Expires=1&Signature=SECRET&Key-Pair-Id=SECRET&Policy=SECRET", HOST),
    "Azure": (f"{HOST}?{SAS}", HOST),
    "Azure of a snapshot": (f"{HOST}?snapshot=2020-01-01T00:00:00Z&{SAS}", f"{HOST}?snapshot=2020-01-01T00:00:00Z"),
    "Azure function": (f"{HOST}?code=SECRET", HOST),
    "Azure gateway": (f"{HOST}?subscription-key=SECRET", HOST),
    "Akamai": (f"{HOST}?hdnts=exp=1~acl=/*~hmac=SECRET", HOST),
    "Akamai edge": (f"{HOST}?__token__=exp=1~hmac=SECRET", HOST),
    "Alibaba": (f"{HOST}?OSSAccessKeyId=SECRET&Expires=1&Signature=SECRET", HOST),
    "Swift": (f"{HOST}?temp_url_sig=SECRET&temp_url_expires=1", HOST),
    "Backblaze": (f"{HOST}?Authorization=SECRET", HOST),
    "Cloudflare": (f"{HOST}?verify=1-SECRET", HOST),
    "Discord": (f"{HOST}?ex=1&is=2&hm=SECRET", HOST),
    "GitHub raw": (f"{HOST}?token=SECRET", HOST),
    "GitLab": (f"{HOST}?private_token=SECRET", HOST),
    "job token": (f"{HOST}?job_token=SECRET", HOST),
    "Zenodo": (f"{HOST}?token={JWT}&download=1", f"{HOST}?download=1"),
    "ArcGIS": (f"{HOST}?f=json&token=SECRET", HOST),
    "Planet": (f"{HOST}?api_key=SECRET", HOST),
    "Mapbox": (f"{HOST}?access_token=pk.SECRET", HOST),
    "OSF": (f"{HOST}?view_only=SECRET", HOST),
    # names that servers give their secrets
    "token among others": (f"{HOST}?a=1&token=SECRET&b=2", HOST),
    "access token": (f"{HOST}?access_token=SECRET", HOST),
    "key": (f"{HOST}?key=SECRETSECRETSECRET_", HOST),
    "short key": (f"{HOST}?key=SECRET", HOST),
    "pass": (f"{HOST}?pass=SECRET", HOST),
    "pw": (f"{HOST}?pw=SECRET", HOST),
    "hmac": (f"{HOST}?hmac=SECRET", HOST),
    "sid": (f"{HOST}?sid=SECRET", HOST),
    "ticket": (f"{HOST}?ticket=SECRET", HOST),
    "pk": (f"{HOST}?pk=SECRET", HOST),
    "jwt": (f"{HOST}?jwt={JWT}", HOST),
    "auth": (f"{HOST}?auth=SECRET", HOST),
    "bearer": (f"{HOST}?bearer=SECRET", HOST),
    "hash": (f"{HOST}?h=SECRET", HOST),
    "email": (f"{HOST}?user=SECRET@example.org", HOST),
    "a name nobody knows": (f"{HOST}?qzx=SECRET", HOST),
    "no name": (f"{HOST}?SECRET", HOST),
    "a name that is the secret": (f"{HOST}?SECRET=", HOST),
    # how queries are spelt
    "list": (f"{HOST}?token[]=SECRET", HOST),
    "member": (f"{HOST}?auth[token]=SECRET", HOST),
    "percent-encoded name": (f"{HOST}?%74oken=SECRET", HOST),
    "percent-encoded harmless name": (f"{HOST}?version%49d=SECRET", HOST),
    "percent-encoded equals": (f"{HOST}?token%3DSECRET", HOST),
    "percent-encoded mark": (f"{HOST}%3Ftoken=SECRET", HOST),
    "percent-encoded query": (f"{HOST}%3Ftoken%3DSECRET%26b%3D1", HOST),
    "semicolons": (f"{HOST}?versionId=7;token=SECRET", f"{HOST}?versionId=7"),
    "two marks": (f"{HOST}?versionId=7?token=SECRET", HOST),
    "twice": (f"{HOST}?token=SECRET&token=SECRET", HOST),
    "ampersands": (f"{HOST}?&&token=SECRET&", HOST),
    "upper case": ("HTTPS://h.org/a?SIG=SECRET", "HTTPS://h.org/a"),
    "spaces": (f"{HOST}?token=a SECRET", HOST),
    "line end": (f"{HOST}?tok\nen=SECRET", HOST),
    "quotes": (f"{HOST}?token='SECRET'", HOST),
    "a value that chains": (f"{HOST}?token=a::SECRET", HOST),
    "flag that is none": (f"{HOST}?dl=SECRET", HOST),
    "IPv6": ("https://[::1]:80/a.tif?token=SECRET", "https://[::1]:80/a.tif"),
    "no path": ("https://h.org?token=SECRET", "https://h.org"),
    # fragments and matrix parameters
    "fragment": (f"{HOST}#SECRET", HOST),
    "fragment of OAuth": (f"{HOST}#access_token=SECRET", HOST),
    "query and fragment": (f"{HOST}?versionId=7#SECRET", f"{HOST}?versionId=7"),
    "fragment with a mark": (f"{HOST}#a?token=SECRET", HOST),
    "matrix": (f"{HOST};token=SECRET", HOST),
    "matrix of a folder": ("https://h.org/d;jsessionid=SECRET/a.tif", HOST),
    "matrix and query": (f"{HOST};v=SECRET;w=SECRET?generation=1", f"{HOST}?generation=1"),
    "percent-encoded matrix": (f"{HOST}%3Btoken%3DSECRET", HOST),
    # user info
    "user": ("https://SECRET:SECRET@h.org/d/a.tif", HOST),
    "token as user": ("https://SECRET@h.org/d/a.tif", HOST),
    "password with @": ("https://me:SE@SECRET@h.org/d/a.tif", HOST),
    "password with a slash": ("https://me:SECRET/SECRET@h.org/d/a.tif", HOST),
    "password with a hash": ("https://me:SECRET#SECRET@h.org/d/a.tif", HOST),
    "password with a mark": ("https://me:SECRET?SECRET@h.org/d/a.tif", HOST),
    "percent-encoded user": ("https://me%3ASECRET%40h.org/d/a.tif", HOST),
    "user before a port": ("https://me:SECRET@h.org:8080/a.tif", "https://h.org:8080/a.tif"),
    "user before IPv6": ("https://me:SECRET@[::1]/a.tif", "https://[::1]/a.tif"),
    "password of FTP": ("ftp://me:SECRET@h.org/a.tif", "ftp://h.org/a.tif"),
    "keys before a bucket": ("s3://SECRET:SECRET@b/a.tif", "s3://b/a.tif"),
    "key before a bucket": ("s3://SECRET@b/a.tif", "s3://b/a.tif"),
    # URLs with others inside
    "chain": (f"zip://a.tif::https://h.org/b.zip?{SAS}", "zip://a.tif::https://h.org/b.zip"),
    "cache": (f"simplecache::{HOST}?token=SECRET", f"simplecache::{HOST}"),
    "user in a chain": ("zip://a.tif::https://me:SECRET@h.org/b.zip", "zip://a.tif::https://h.org/b.zip"),
    "first of a chain": (f"{HOST}?t=SECRET::zip://b", f"{HOST}::zip://b"),
    "proxy": (f"https://p.org/get?url={HOST}?token=SECRET", "https://p.org/get"),
    "percent-encoded proxy": (
        f"https://p.org/?url={urllib.parse.quote(f'{HOST}?t=SECRET', safe='')}",
        "https://p.org/",
    ),
    "user in a path": ("https://p.org/https://me:SECRET@h.org/d/a.tif", f"https://p.org/{HOST}"),
    "query in a path": (f"https://p.org/{HOST}?token=SECRET", f"https://p.org/{HOST}"),
    "web token": ("webhdfs://h.org/a.tif?delegation=SECRET", "webhdfs://h.org/a.tif"),
}
"""URLs, and what a manifest names in their place."""

SHARES = {
    "Dropbox": "https://www.dropbox.com/scl/fi/SECRET/a.tif?rlkey=SECRET&dl=1",
    "Dropbox, old": "https://www.dropbox.com/s/SECRET/a.tif?dl=1",
    "Dropbox folder": "https://www.dropbox.com/sh/SECRET/SECRETSECRETSECRET/a.tif",
    "Dropbox content": "https://dl.dropboxusercontent.com/scl/fi/SECRET/a.tif?rlkey=SECRET",
    "Dropbox download": "https://uc1.dl.dropboxusercontent.com/cd/0/get/SECRET/file?dl=1",
    "OneDrive": "https://1drv.ms/i/s!SECRET",
    "OneDrive API": "https://api.onedrive.com/v1.0/shares/u!SECRET/root/content",
    "Graph": "https://graph.microsoft.com/v1.0/shares/SECRET/driveItem/content",
    "SharePoint": "https://me.sharepoint.com/:i:/g/personal/me/SECRET?e=SECRET",
    "Google Drive": "https://drive.google.com/file/d/SECRET/view?usp=sharing",
    "Google Drive API": "https://www.googleapis.com/drive/v3/files/SECRET?alt=media",
    "Google download": "https://doc-0o-docs.googleusercontent.com/docs/securesc/SECRET/a?e=download",
    "Box": "https://app.box.com/shared/static/SECRET.tif",
    "Box of a firm": "https://firm.app.box.com/s/SECRET",
    "WeTransfer": "https://we.tl/t-SECRET",
    "Mega": "https://mega.nz/file/SECRET#SECRET",
    "Telegram": "https://api.telegram.org/file/bot1:SECRET/a.tif",
    "Nextcloud": "https://cloud.h.org/s/SECRETsecretx1y2/download",
    "Nextcloud without rewriting": "https://cloud.h.org/index.php/s/SECRETsecretx1y2",
    "Nextcloud file": "https://cloud.h.org/s/SECRETsecretx1y2/download?path=%2F&files=a.tif",
    "Nextcloud DAV": "https://cloud.h.org/public.php/dav/files/SECRET/a.tif",
    "Oracle": "https://objectstorage.eu-zurich-1.oraclecloud.com/p/SECRET-x_1/n/ns/b/images/o/d/a.tif",
    "Oracle, a host for each namespace": "https://ns.objectstorage.eu-zurich-1.oci.customer-oci.com/p/SECRET/n/ns/b/images/o/a.tif",
    "Oracle of a folder": "https://objectstorage.uk-gov-london-1.oraclegovcloud.uk/p/SECRET/n/ns/b/images/o/",
    "OneDrive, short": "https://1drv.ms/u/SECRET",
    "Google Docs": "https://docs.google.com/uc/d/SECRET/export",
    "WeTransfer, long": "https://wetransfer.com/downloads/SECRET/SECRET",
    "iCloud": "https://www.icloud.com/iclouddrive/SECRET",
    "pCloud": "https://e.pcloud.link/publink/show?code=SECRET",
    "Seafile link": "https://sea.h.org/f/5ec7e75ec7e75ec7e700/?dl=1",
    "Seafile folder": "https://sea.h.org/d/5ec7e75ec7e75ec7e700/files/",
    "signature in a path": "https://h.org/sig/SECRETSECRET/a.tif",
    "secret in a path": "https://h.org/secret/SECRETSECRET/a.tif",
    "password in a path": "https://h.org/password/SECRETSECRET/a.tif",
    "API key in a path": "https://h.org/api_key=SECRETSECRET/a.tif",
    "JWT in a path": "https://h.org/jwt/SECRETSECRET/a.tif",
    "Seafile": "https://sea.h.org/seafhttp/files/SECRET/a.tif",
    "token in a path": "https://h.org/token/SECRETSECRET/a.tif",
    "token as a folder": "https://h.org/d/access_token=SECRETSECRET/a.tif",
    "percent-encoded path": "https://www.dropbox.com/%73/SECRET/a.tif",
}
"""Links whose path is the permission to read."""

PLAIN = [
    HOST,
    f"{HOST}?versionId=3/L4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY",
    f"{HOST}?generation=1700000000000000",
    f"{HOST}?raw=true",
    "https://h.org/bucket/files/a.tif",
    "https://h.org/year=2024/a;b.tif",
    "https://storage.googleapis.com/b/files/a.tif",
    "https://h.org/S/DG/2015/12/7/0/B01.jp2",
    "s3://b/a?token=part-of-the-key",
    "s3://b/a#1.tif",
    "s3://b/mail@home.tif",
    "s3://arn:aws:s3:eu-west-1:1:accesspoint/p/mail@home.tif",
    "abfs://container@account.dfs.core.windows.net/a.tif",
    "oci://bucket@namespace/a.tif",
    "hf://gpt2@main/a.tif",
    "github://org:repo@main/a.tif",
    "sftp://me@host/a.tif",
    "/data/a?sig=1.tif",
    "memory://a",
    "memory://a@b/c?d=1",
    "zip://a.tif::/d/b.zip",
    "zip://mail@home?.tif::s3://b/c.zip",
    "simplecache::s3://b/a.tif",
    "https://[2001:db8::1]:8080/a.tif",
]

EVERY = {name: url for name, (url, _) in SECRETS.items()} | SHARES


@pytest.mark.parametrize("case", SECRETS)
def test_what_a_manifest_names_has_no_secret(case):
    url, named = SECRETS[case]
    assert bare(url) == named
    assert bare(named) == named


@pytest.mark.parametrize("url", PLAIN)
def test_a_url_without_secrets_is_as_it_was(url):
    assert bare(url) == url
    assert not is_share_link(url)


def test_what_is_kept_is_said_by_name():
    url = "https://h.org/get?id=7&layer=a%2Fb&token=SECRET"
    assert bare(url, ["id"]) == "https://h.org/get?id=7"
    assert bare(url, ["layer", "id"]) == "https://h.org/get?id=7&layer=a%2Fb"
    assert bare(f"{url}#SECRET", ["*"]) == url
    assert bare("https://me:SECRET@h.org/a?id=7", ["*"]) == "https://h.org/a?id=7"
    assert bare("https://h.org/a;band=4;token=SECRET", ["band"]) == "https://h.org/a;band=4"


OF_SEVERAL_WORDS = {"spaces", "line end"}
"""No text tells where such a URL ends; as the URL of an error it is hidden all the same."""


@pytest.mark.parametrize("case", EVERY)
def test_no_error_says_a_credential(case):
    url = EVERY[case]
    errors = [JnrrdzError("gone", url=url), JnrrdzError("x", field="y").at(url=url)]
    if case not in OF_SEVERAL_WORDS:
        errors += [
            JnrrdzError(f"GET '{url}' failed"),
            JnrrdzError(f"<{url}>, ({url}); {url}: {url}, see `{url}`"),
            JnrrdzError(repr({"url": url, "n": 1})),
            JnrrdzError(f"asked {url}.", url=url),
        ]
    for error in errors:
        assert "SECRET" not in str(error)
        assert "secretx1y2" not in str(error)
        assert "://" in str(error)
    assert "gone" in str(errors[0])
    assert redacted(str(errors[0])) == str(errors[0])


@pytest.mark.parametrize(("host", "mark", "pattern"), SHARE_LINKS)
def test_each_kind_of_share_link_has_an_example(host, mark, pattern):
    examples = [
        url
        for url in map(urllib.parse.urlsplit, SHARES.values())
        if url.hostname.endswith(host) and re.search(pattern, url.path)
    ]
    assert examples
    assert all((mark or host) in url.geturl().lower() for url in examples)


@pytest.mark.parametrize("blank", [" ", "\n", "\t", '"', "'", "`", "\r\n"])
@pytest.mark.parametrize(
    "url",
    [
        "https://me:SEC{}SECRET@h.org/a.tif",
        "https://me:{}SECRET@h.org/a.tif",
        "https://me{}:SECRET@h.org/a.tif",
        "https://{}me:SECRET@h.org/a.tif",
        "https:{}//me:SECRET@h.org/a.tif",
        "//me:SEC{}SECRET@h.org/a.tif",
        "/me:SEC{}SECRET@h.org/a.tif",
    ],
)
def test_a_password_is_hidden_however_it_is_written(url, blank):
    written = url.format(blank)
    texts = [f"GET {written} failed", f"cannot open '{written}'", f"{written}: gone"]
    for text in texts:
        assert "SECRET" not in redacted(text)
        assert "SECRET" not in str(JnrrdzError(text))
        assert "h.org/a.tif" in redacted(text)
    assert "SECRET" not in str(JnrrdzError("gone", url=written))


def test_a_password_whose_url_was_cut_is_hidden():
    # the first line of a URL with a newline in its password
    assert hidden("http://me:SECRET") == "http://me:REDACTED"
    assert redacted("http://me:SECRET: not a URL") == "http://me:REDACTED: not a URL"
    assert hidden("http://[::1]:80/a") == "http://[::1]:80/a"


@pytest.mark.parametrize(
    "text",
    [
        "https://h.org:8080/a.tif: 404 Not Found; write to me@h.org",
        "s3://b/mail@home.tif: github://org:repo@main/a.tif",
        "a//b/c:1/d@2.tif",
        '{"url":"https://h.org/a.tif","size":1}',
    ],
)
def test_a_text_without_a_secret_is_as_it_was(text):
    assert redacted(text) == text


def some(*texts, most=1):
    return st.lists(st.sampled_from(texts), max_size=most).map("".join)


NAMES = st.sampled_from(["token", "versionId[]", "%76ersionId", "x", "", "dl", "generation", "a.b-c", "%26", "ключ"])
MEMBERS = st.lists(
    st.tuples(NAMES, st.sampled_from(["=", "%3D", "=%20", "=a%3F", "=a&b=", "=://", "=a::"])), max_size=3
)
URLS = st.tuples(
    some("zip://a.tif::", "simplecache::", "https://p.org/", "https://me@p.org/x/"),
    st.sampled_from(["https://", "http://", "HTTPS://", "webdav://"]),
    some("SECRET@", "me:SECRET@", "me:SE@SECRET@", "me:x/SECRET@", "me%3ASECRET%40", ":SECRET@"),
    st.sampled_from(["h.org", "h.org:80", "[::1]", "[::1]:80", "127.0.0.1"]),
    some("/a", "/b.tif", "/c%20d", "/%E2%82%AC", "//", most=3),
    some(";token=SECRET", "%3Bx%3DSECRET", ";a=SECRET;b=SECRET"),
    MEMBERS.map(lambda members: "?" * bool(members) + "&".join(f"{name}{equals}SECRET" for name, equals in members)),
    some("#SECRET", "#a=SECRET", "#a?b=SECRET"),
).map("".join)


@given(URLS)
def test_however_a_url_is_put_together_no_secret_stays(url):
    for shown in (bare(url), hidden(url), redacted(f"GET '{url}' failed"), str(JnrrdzError(f"x {url}, y", url=url))):
        assert "SECRET" not in shown
    assert bare(bare(url)) == bare(url)
    assert "://" in bare(url)


@given(
    st.lists(st.sampled_from([*";?&#=@:/%'", "://", "::", "https", "%3F", "%40", "s3", " ", "a"]) | st.text(max_size=2))
)
def test_any_text_is_taken(pieces):
    text = "".join(pieces)
    assert bare(bare(text)) == bare(text)
    for run in (redacted, hidden, dropped_names, is_share_link):
        run(text)
    assert printable(text).isprintable()


QUOTED = [
    "Max retries exceeded with url: /a.tif?X-Amz-Signature=SECRET (Caused by ...)",
    "GET /a.tif?code=SECRET HTTP/1.1",
    f"the server said {urllib.parse.quote(f'{HOST}?sig=SECRET', safe='')}",
    "{'headers': {'Authorization': 'Bearer SECRETSECRETSECRET'}}",
    "<CIMultiDictProxy('X-Api-Key': 'SECRET', 'Cookie': \"SECRET\")>",
    "Authorization: Basic SECRETSECRETSECRET==",
    "{'key': 'AKIA', 'secret': 'SECRET', 'token': b'SECRET'}",
    "Bad status line: b'no such /p/SECRETSECRET/n/ns/b/bucket/o/a.tif'",
    "{'client_kwargs': {'aws_secret_access_key': 'SECRET'}, 'account_key': 'SECRET'}",
]


@pytest.mark.parametrize("text", QUOTED)
def test_what_libraries_quote_is_hidden(text):
    assert "SECRET" not in redacted(text)
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "a.tif: IFD 0: 3 strips; 4 are there (at byte 7)",
        "is it so? yes: a=b; c=d",
        "N5 'c/0/0': what's 'this'? \"key\": 7",
        "https://h.org/a.tif: not found (reading); see https://h.org/b.tif.",
        "x:// and ://",
        "/data/a:b@c.tif: no /p/a/n/1; either / or: me@h.org; a/b:c@d",
    ],
)
def test_other_text_is_as_it_was(text):
    assert redacted(text) == text


REPEATED = [
    *("x-amz-", "token-", "a.a.a.", "a+a+://", "://", "https://a", "?", "?a", "&a", "?a=", "%3F", "%26a%3D"),
    *(";a=", "%3Ba", "/s/Aa", "@", "%40", ":@", "::", "::a", "::a://", "'", "'key", "'secret':\"", '"token": '),
    *("Bearer ", "Basic a", "#", "a=", "/token/", "[", "/a:", "/p/", "/p/aaaaaaaa/n/"),
]


@pytest.fixture
def frozen():
    gc.freeze()  # else most of the time goes into collecting what other tests made
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(("start", "run"), [("", redacted), ("https://u:", redacted), ("https://h/", bare)])
def test_time_grows_with_the_text(start, run):
    for piece in REPEATED:
        assert_linear(lambda n, piece=piece: start + piece * n, run, 500)


@pytest.mark.usefixtures("frozen")
def test_time_grows_with_what_is_told_of_a_url():
    for run in (dropped_names, is_share_link):
        for piece in ("://a", ";a=", "&a=", "/s/Aa", "%3Fa=", "::a://"):
            assert_linear(lambda n, piece=piece: f"https://h/{piece * n}", run, 500)


@pytest.fixture(params=["s3", "s3v4"])
def presigned(request, seaweed, bucket):
    seaweed.put(bucket, "a.tif", tiff_bytes(np.full((32, 32), 7, np.uint8)))
    config = botocore.config.Config(s3={"addressing_style": "path"}, signature_version=request.param)
    keys = {"aws_access_key_id": ADMIN[0], "aws_secret_access_key": ADMIN[1]}
    client = botocore.session.Session(profile=None).create_client(
        "s3", "us-east-1", endpoint_url=seaweed.url, config=config, **keys
    )
    return client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a.tif"})


def secrets_of(url):
    given = dict(part.split("=") for part in url.partition("?")[2].split("&"))
    signature = given.get("X-Amz-Signature") or given["Signature"]
    return signature, signature[:10], urllib.parse.unquote(signature), ADMIN[0]


@pytest.mark.parametrize("name", ["refs.json", "refs.parquet"])
def test_a_manifest_of_a_presigned_url_holds_no_signature(presigned, tmp_path, name):
    with pytest.warns(UserWarning, match="may be credentials, which no manifest records") as told:
        jnrrdz.index(presigned, tmp_path / name)
    written = [path for path in (tmp_path, *tmp_path.rglob("*")) if path.is_file()]
    text = b"".join(path.read_bytes() for path in written).decode("latin-1") + str(told[0].message)
    assert not any(secret in text for secret in secrets_of(presigned))
    assert presigned.partition("?")[0] in text
    assert np.all(jnrrdz.open_group(presigned)["data"][:] == 7)  # what stays in memory is read as it was given


def test_the_command_says_no_signature(presigned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [["index", presigned, "-o", "r.json"], ["index", presigned, "-o", "-"], ["info", presigned]]
    runs += [["verify", presigned], ["batch", presigned, "-o", "{stem}.json", "--report", "r.jsonl"]]
    runs += [["-v", "index", presigned.replace("a.tif", "b.tif"), "-o", "s.json"]]
    for run in runs:
        done = CliRunner().invoke(cli, run)
        assert done.exit_code == (run[0] == "-v"), done.output
        text = done.output + "".join(path.read_text() for path in tmp_path.glob("*.json*"))
        assert not any(secret in text for secret in secrets_of(presigned)), run
