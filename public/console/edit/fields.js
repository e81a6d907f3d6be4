// @ts-check

/**
 * The texts of the fields of a form, by name.
 * @typedef {Readonly<Record<string, string>>} Fields
 */

/**
 * The label of a field on the page.
 * @param {string} name
 */
export function labelOf(name) {
  return name === 'body' ? 'text' : name;
}

/**
 * The fields of the second that differ from the first.
 * @param {Fields} base
 * @param {Fields} wanted
 */
export function changedFields(base, wanted) {
  return Object.fromEntries(Object.entries(wanted).filter(([name, text]) => text !== base[name]));
}

/**
 * @param {Fields} a
 * @param {Fields} b
 */
export function sameFields(a, b) {
  return Object.keys(changedFields(a, b)).length === 0;
}

/**
 * The merge of two changes of the same version.
 * @typedef {object} Merge
 * @property {Fields} fields both changes together, with my value where they conflict
 * @property {string[]} conflicts fields that both changed, to different values
 * @property {string[]} theirs fields that only the other person changed
 */

/**
 * @param {Fields} base
 * @param {Fields} mine
 * @param {Fields} theirs
 * @returns {Merge}
 */
export function mergeFields(base, mine, theirs) {
  /** @type {Record<string, string>} */
  const fields = { ...mine };
  /** @type {Merge} */
  const merge = { fields, conflicts: [], theirs: [] };
  for (const [name, text] of Object.entries(theirs)) {
    if (text === base[name] || text === mine[name]) continue;
    if (mine[name] === base[name]) {
      fields[name] = text;
      merge.theirs.push(name);
    } else merge.conflicts.push(name);
  }
  return merge;
}
