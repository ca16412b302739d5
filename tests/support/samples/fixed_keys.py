"""Keys of kinds that take up to a second to generate: made once, and kept here for the tests."""

from typing import Final

from cryptography.hazmat.primitives.asymmetric import dsa, rsa

__all__ = ["RSA_4096", "dsa_key"]

_P: Final = int(
    "e13c68c063f1695e0898eb438b2c9b3272e16c075749e7c99650ec4548c11d04eebd520d46f71fb831f32d47a56b"
    "93a907294bb57b63b26a2bb8a80be34ccee956295845c17d9216aa0ad3191dc5a18d28f91b86820bec045c3047c3"
    "0b7ad96c768e1d97bc433cf416b127c465e5c3ae656004fa2cdbfd3e82949e93b0a81d25e81620300fad9233335b"
    "15c7beed0e458d9a5ff2060d28c4f89d6ddc57ebd86e6337f55802d65dc203b184186b84d2a980b933d1bb7e25f6"
    "cddd5bee731f506dff8ce3384006115f206b9cec6d430377cb1fb1c95476f5802060503e563d469d1faf8cfe8378"
    "c6e4bd10159a48c3d6e2a641ec6d49652ff76d6605c8e0693651",
    16,
)
_Q: Final = int(
    "c1137771e7ef93b2eb47e82fffcd350b9bac6786d346ef5c4af74c6b60389fe7cc9517d936850b314003c3d5afe5"
    "5f06615cd61b6080df2330434d7a99c3a2db2a150cccc67a9871ddae07820784461fa0ae865065da1f3e5e4c93b8"
    "d12714b790f985f28cf66c286a7734be815476bd709165b2dcca10a8a24a77e1085bf40c88135d2ce9e832e77921"
    "68c9ae2eb8624ae64b3450c0aedcdd604102b3c7423dcc13f569b5dde03a70acb25579a5619d44331a1934f7fa29"
    "91f104ddde5e9a3103ec3238f07c57435aedde5f42e6bc886b8a312261643df4303554e2541268e1274f9be1d9f9"
    "b6b7e406680b01efb67ce44bb4dea1d78855fec2cbabfdf90d8d",
    16,
)
_DSA: Final = dsa.DSAParameterNumbers(
    p=int(
        "cb8fffbfe01712e10839e061dfd86f78d327e5a428c8d6cf90e7a0c31b533fedb3adc405ba3f72f490dba69e3014"
        "50c546c76c57413e321f3399db53e42649086cad874906a84214e2beefd3aee26d943e6a1e1b7b7257979a449fa2"
        "f172c4ec6b67768bf766a2d3bf06faef90b65f6fd6cc1010865420b662dcf5ebf2554bf6f77396bfd36dad6214ae"
        "fac0004600a7de55cf144306e95b2c60646ad610b23a646465a48aebf1b71b4abbdb0dcb69e8eb55f1e6a47fc5ab"
        "05b71289453364c554d5ff933a78aeb8734552c614c2fd315de915f69589dc5f13c82c68681122bb8d1f1e41a99d"
        "5675db4789e704a2a2f5208865896a20ac43458a389b2d1c9c63",
        16,
    ),
    q=int("b8e86c0a2c4184c19916cb7714e5fd49d7c50cf6781b44626b5eb46b052b6283", 16),
    g=int(
        "69a6718a0a2641e283ae8fdc3274b670dac0f0dcc0ed6292e916a2e5884d061db9651451228e1d2c67edefb8d31a"
        "cd982198fd83d16c19070ace0c605c5149af0b27614b1e1c82e7b0093b39360cb728762a07193c8716d4dba33d82"
        "84aeb021abe1d13085ac659a9b4b424cfefc9ec6cfb05cdf48365fe9c13ceb261e0140330389d64a63d7e0932f44"
        "a9664a30b9a59275adbc5cc811f0a55b3c21faa105beb16fd7122f0fb89edf90ea7b24acb1ffe08466d77b4b333a"
        "c73b0a57b4ef7755db864636c7447832be0b411459860ba5c255b61b070a89a69c2f6d3fe502fe3a7fbdc0156e0f"
        "fcf4b571c3727cfc8474b5853d52aec9e08da38a3d2ad662eb78",
        16,
    ),
).parameters()


def _rsa_key(p: int, q: int) -> rsa.RSAPrivateKey:
    d = pow(65537, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(65537, p * q)
    numbers = rsa.RSAPrivateNumbers(
        p, q, d, rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q), public
    )
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


RSA_4096: Final = _rsa_key(_P, _Q)


def dsa_key() -> dsa.DSAPrivateKey:
    """Return a new key of 2048 bits under parameters that are always the same."""
    return _DSA.generate_private_key()
