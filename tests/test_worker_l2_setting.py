"""The L2's setting on a driver made up for it: what a kernel changes is told, and put back."""

from types import SimpleNamespace

import pytest

from gdnbench.workers import launched
from gdnbench.workers.launched import PersistingL2

STREAM = 7
OK, REFUSED = launched.driver.CUresult.CUDA_SUCCESS, launched.driver.CUresult.CUDA_ERROR_UNSUPPORTED_LIMIT


class Driver:
    """A context with one stream; `status` is what each call answers."""

    CUresult = launched.driver.CUresult

    def __init__(self):
        self.status, self.limit, self.window, self.resets = OK, 0, (0, 0, 0.0), 0

    def cuStreamGetAttribute(self, stream, _attribute):
        assert stream == STREAM
        base, nbytes, ratio = self.window
        window = SimpleNamespace(base_ptr=base, num_bytes=nbytes, hitRatio=ratio)
        return self.status, SimpleNamespace(accessPolicyWindow=window)

    def cuStreamSetAttribute(self, stream, _attribute, value):
        assert stream == STREAM
        window = value.accessPolicyWindow
        self.window = (window.base_ptr, window.num_bytes, window.hitRatio)

    def cuCtxGetLimit(self, _limit):
        return self.status, self.limit

    def cuCtxSetLimit(self, _limit, value):
        self.limit = value

    def cuCtxResetPersistingL2Cache(self):
        self.resets += 1


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(launched, "driver", made)
    return made


def test_what_stays_as_it_was_is_no_change(driver):
    driver.limit = 4096
    l2 = PersistingL2(STREAM)
    assert l2.changes() == ()
    assert (driver.limit, driver.resets) == (4096, 0)


def test_a_limit_is_told_and_put_back(driver):
    l2 = PersistingL2(STREAM)
    driver.limit = 1 << 20
    assert l2.changes() == ("1,048,576 bytes of it for lines that persist",)
    assert (driver.limit, driver.resets) == (0, 1)
    assert l2.changes() == ()


@pytest.mark.parametrize("window", [(4096, 65536, 1.0), (4096, 1024, 0.5)])
def test_a_window_is_told_and_put_back(driver, window):
    driver.window = (4096, 1024, 1.0)
    l2 = PersistingL2(STREAM)
    driver.window = window
    assert l2.changes() == (f"an access-policy window of {window[1]:,} bytes on the stream",)
    assert (driver.window, driver.resets) == ((4096, 1024, 1.0), 1)


def test_a_driver_that_does_not_tell_is_no_change(driver):
    driver.status = REFUSED
    never = PersistingL2(STREAM)
    driver.status = OK
    l2 = PersistingL2(STREAM)
    driver.limit = 1
    assert never.changes() == ()
    driver.status = REFUSED
    assert l2.changes() == ()
