"""A real browser without a window; tests that need one are skipped where there is none."""

import json
import shutil
import time
from contextlib import contextmanager

import pytest

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1400,1000",
)  # fmt: skip
WATCH_SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


def _found():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None), shutil.which("chromedriver")


def need_chromium():
    """Skips, with the reason, where no browser can be driven."""
    browser, driver = _found()
    if not (browser and driver):
        pytest.skip("no chromium and chromedriver here: apt-get install chromium chromium-driver")
    pytest.importorskip("selenium", reason="no selenium here: pip install 'gdnbench[dev]'")
    return browser, driver


@contextmanager
def chromium(profile):
    """A driver of a browser with an empty profile that logs its console and every request."""
    binary, driver_path = need_chromium()
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    try:
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH_SHIFTS})
        yield driver
    finally:
        driver.quit()


def view(driver, path, *, width=1280, reduced=False):
    """Opens a file as wide as wanted, and waits until all of its charts are drawn."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    motion = {"name": "prefers-reduced-motion", "value": "reduce" if reduced else "no-preference"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [motion]})
    driver.get(path.as_uri())
    until(driver, "return 'ready' in document.documentElement.dataset")


def until(driver, script, seconds=30):
    """Waits for a script to give something true."""
    end = time.monotonic() + seconds
    while not (found := driver.execute_script(script)):
        assert time.monotonic() < end, f"waited {seconds} s for: {script}"
        time.sleep(0.05)
    return found


def press(driver, element):
    """A click where the element is, once it is in sight."""
    driver.execute_script("arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' })", element)
    element.click()


def requests(driver):
    """The address of everything that the page asked for."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [message for message in messages if message["method"] == "Network.requestWillBeSent"]
    return [message["params"]["request"]["url"] for message in sent]
