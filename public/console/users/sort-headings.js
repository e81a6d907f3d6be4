// @ts-check

/**
 * The column headings that sort. The first click sorts ascending, and the next one descending.
 * @param {HTMLTableElement} table
 * @param {(sort: string) => void} choose
 */
export function createSortHeadings(table, choose) {
  let current = '';
  const headings = [...table.querySelectorAll('th')].filter((heading) => 'sort' in heading.dataset);
  for (const heading of headings) {
    const field = heading.dataset['sort'] ?? '';
    heading
      .querySelector('button')
      ?.addEventListener('click', () => choose(current === field ? `-${field}` : field));
  }
  return {
    /** @param {string} sort */
    show(sort) {
      current = sort;
      for (const heading of headings) {
        const field = heading.dataset['sort'] ?? '';
        if (sort === field) heading.ariaSort = 'ascending';
        else if (sort === `-${field}`) heading.ariaSort = 'descending';
        else heading.ariaSort = null;
      }
    },
  };
}
