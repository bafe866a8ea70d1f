// Comfort only: every page works without it. Counts a deadline down and keeps a decision from being
// sent twice by a double click; the server refuses the second one anyway.
"use strict";

// As hitl/moments.py spells it: the two largest units.
function spell(seconds) {
  let rest = seconds;
  const parts = [];
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const count = Math.floor(rest / length);
    rest -= count * length;
    if (count) parts.push(count + unit);
    else if (parts.length) break;
  }
  return parts.slice(0, 2).join(" ") || "0s";
}

function countDown(shown) {
  const seconds = Math.floor((Date.parse(shown.dateTime) - Date.now()) / 1000);
  shown.textContent = seconds > 0 ? `${spell(seconds)} left` : "The deadline has passed";
  shown.parentElement.classList.toggle("sayso-near", seconds < 120);
}

document.addEventListener("DOMContentLoaded", () => {
  const deadlines = document.querySelectorAll("time[data-deadline]");
  if (deadlines.length) setInterval(() => deadlines.forEach(countDown), 1000);
  for (const form of document.querySelectorAll(".sayso form[method=post]")) {
    form.addEventListener("submit", (event) => {
      if (form.dataset.sent) event.preventDefault();
      form.dataset.sent = "yes";
    });
  }
});

// Going back shows the page as it was left: let it be used again.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll(".sayso form[data-sent]")) delete form.dataset.sent;
});
