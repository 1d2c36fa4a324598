// The fragment of the URL, the view that somebody has sent, outlives signing in.
const form = document.querySelector("form");
form.action += location.hash;
