// What every page shares: its data, and its elements by their names.
export const data = JSON.parse(document.getElementById('data').textContent);
export const find = id => document.getElementById(id);
