"""What can be wrong with a bundle: one family of exceptions."""

from __future__ import annotations


class BundleError(ValueError):
    """A bundle that is not opened, made or fetched; the text says why. No text has key material or
    decrypted content.
    """


class BundleTruncated(BundleError):
    """The file ends too early, or goes on too long."""


class BundleAltered(BundleError):
    """The file is no bundle, or not as its signer left it."""


class BundleWrongKey(BundleError):
    """The key does not open the bundle, or is none."""


class BundleWrongSigner(BundleError):
    """Not signed by anybody who is trusted."""


class BundleOutdated(BundleError):
    """An older release than was asked for or seen before."""


class BundleTooLarge(BundleError):
    """It would take more memory than is allowed, or than it declares."""


class BundleWrongPlatform(BundleError):
    """It has no op library for this machine."""
