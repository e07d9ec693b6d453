// SPDX-License-Identifier: Apache-2.0
"use strict";

// What is shown is stale when the daemon does not answer: say so, and since when.
(function () {
	let last = new Date();
	const box = () => document.getElementById("stale");
	function fresh() {
		last = new Date();
		if (box()) box().hidden = true;
	}
	function stale() {
		if (!box()) return;
		box().textContent = "The daemon does not answer. What you see is of " + last.toLocaleTimeString() + ".";
		box().hidden = false;
	}
	document.addEventListener("htmx:sendError", stale);
	document.addEventListener("htmx:timeout", stale);
	document.addEventListener("htmx:afterRequest", (e) => {
		if (e.detail.xhr && e.detail.xhr.status > 0 && e.detail.xhr.status < 502) fresh();
	});
	// An answer that says what is wrong is shown like any other.
	document.addEventListener("htmx:beforeSwap", (e) => {
		const status = e.detail.xhr.status;
		if (status === 401) {
			window.location.assign("/login?next=" + encodeURIComponent(location.pathname + location.search));
			return;
		}
		if (status >= 400 && e.detail.xhr.getResponseHeader("X-Fragment")) {
			e.detail.shouldSwap = true;
			e.detail.isError = false;
		}
	});

	// A button that its own answer takes away leaves the focus to the answer: else people without a mouse
	// begin again at the top of the page.
	let left = null;
	document.addEventListener("htmx:beforeSwap", (e) => {
		left = e.detail.target.contains(document.activeElement) ? e.detail.target : null;
	});
	document.addEventListener("htmx:afterSwap", () => {
		if (left && document.activeElement === document.body) {
			left.tabIndex = -1;
			left.focus({ preventScroll: true });
		}
		left = null;
	});

	// Until the scripts are there, a form has method="dialog": the browser does nothing when it is sent, so what was
	// typed stays, and its buttons cannot be pressed.
	document.addEventListener("DOMContentLoaded", () => {
		if (window.htmx) document.body.classList.add("ready");
	});

	// A text that was reviewed is not checked once more: the check would replace the review.
	// htmx:confirm comes before hx-sync ends the request that is under way; htmx:beforeRequest comes after that.
	let reviewed = null;
	document.addEventListener("htmx:confirm", (e) => {
		const path = e.detail.path;
		const text = document.getElementById("text");
		if (path === "/limits/review") reviewed = text.value;
		else if (path === "/limits/check" && text.value === reviewed) e.preventDefault();
		else if (path === "/limits/check") reviewed = null;
	});
	// Events: parts of a page that wait for one are asked for anew.
	if (document.body.dataset.live !== undefined) {
		const source = new EventSource("/v1/events");
		const happened = () => document.body.dispatchEvent(new Event("happened"));
		for (const kind of ["limits-stored", "limits-applied", "limits-refused", "member"]) {
			source.addEventListener(kind, happened);
		}
		source.addEventListener("error", stale);
		source.addEventListener("open", fresh);
		window.addEventListener("pagehide", () => source.close());
	}

	// Charts of what a key was offered, allowed and rejected.
	function color(name) {
		return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
	}
	function draw(box) {
		fetch(box.dataset.from, { headers: { Accept: "application/json" } })
			.then((answer) => (answer.ok ? answer.json() : null))
			.then((usage) => {
				if (!usage || !usage.times || usage.times.length === 0) return;
				const most = (all) => Math.max(...all).toPrecision(3) / 1;
				box.setAttribute("aria-label", `Each second, over the last minutes: at most ${most(usage.allowed)} allowed and ${most(usage.rejected)} rejected; in the last ten seconds at most ${most(usage.allowed.slice(-10))} and ${most(usage.rejected.slice(-10))}.`);
				const data = [usage.times, usage.allowed, usage.rejected];
				if (box.plot) {
					box.plot.setData(data);
					return;
				}
				const axis = () => ({ stroke: color("--soft"), grid: { stroke: color("--line") }, ticks: { stroke: color("--line") } });
				box.textContent = "";
				box.plot = new uPlot({
					width: box.clientWidth, height: 240,
					series: [
						{},
						{ label: "allowed/s", stroke: color("--accent"), width: 2 },
						{ label: "rejected/s", stroke: color("--bad"), width: 2 },
					],
					axes: [axis(), axis()],
				}, data, box);
			})
			.catch(stale);
	}
	const charts = document.querySelectorAll(".chart[data-from]");
	charts.forEach((box) => {
		draw(box);
		setInterval(() => draw(box), 2000);
		window.addEventListener("resize", () => {
			if (box.plot) box.plot.setSize({ width: box.clientWidth, height: 240 });
		});
	});
})();
