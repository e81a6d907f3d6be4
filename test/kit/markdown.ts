import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Every Markdown file of the project by its path. */
export const documents: ReadonlyMap<string, string> = new Map(
  globSync(['*.md', '{.github,proto,public,scripts,src,test}/**/*.md'], {
    cwd: root,
    exclude: ['**/node_modules/**'],
  })
    .sort()
    .map((path) => [path.replaceAll('\\', '/'), readFileSync(join(root, path), 'utf8')]),
);

type Row = readonly string[];

interface Table {
  readonly path: string;
  readonly header: Row;
  readonly rows: readonly Row[];
}

/** The tables after `<!-- marker -->` in all documents. */
export function tablesOf(marker: string): readonly Table[] {
  return [...documents].flatMap(([path, text]) =>
    text
      .split(`<!-- ${marker} -->\n`)
      .slice(1)
      .map((behind) => {
        const lines = behind.trimStart().split(/\n(?!\|)/)[0] ?? '';
        const [header = [], , ...rows] = lines.split('\n').map((line) =>
          line
            .split(/(?<!\\)\|/)
            .slice(1, -1)
            .map((cell) => cell.trim()),
        );
        return { path, header, rows };
      }),
  );
}

/** The only table after `<!-- marker -->`. */
export function tableOf(marker: string): Table {
  const [table, ...others] = tablesOf(marker);
  assert.ok(table !== undefined && others.length === 0, `exactly one document must have <!-- ${marker} -->`);
  return table;
}

/**
 * Compares a table with the rows that it should have. A cell that is `undefined` may have any text. A failure
 * prints the table to paste.
 */
export function compareTable(marker: string, expected: readonly (readonly (string | undefined)[])[]): void {
  const { path, header, rows } = tableOf(marker);
  const filled = expected.map((cells) => {
    const written = rows.find(([first]) => first === cells[0]);
    return cells.map((cell, column) => cell ?? written?.[column] ?? '…');
  });
  const paste = [header, header.map(() => '---'), ...filled].map((cells) => `| ${cells.join(' | ')} |`);
  assert.deepEqual(rows, filled, `${path}, after <!-- ${marker} -->, should have\n\n${paste.join('\n')}\n`);
  for (const [first, ...cells] of rows) {
    assert.ok(
      cells.every((cell) => cell !== '…'),
      `${first} is not described`,
    );
  }
}
