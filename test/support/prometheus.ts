import assert from 'node:assert/strict';

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly type: string;
  readonly help: string;
  readonly samples: Sample[];
}

const namePattern = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const sampleLine = new RegExp(
  `^(${namePattern})(?:\\{(.*)\\})? ([+-]?(?:[0-9.]+(?:e[+-]?[0-9]+)?|Inf)|NaN)$`,
);
const labelPart = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/y;

/** Parses the text format 0.0.4 strictly. It fails on unknown lines, because a scraper may reject them. */
export function parseMetrics(text: string): Map<string, Family> {
  assert.ok(text.endsWith('\n'), 'the last line must end with a line break');
  const families = new Map<string, Family>();
  const seen = new Set<string>();
  let current = '';
  let help: string | undefined;
  for (const line of text.slice(0, -1).split('\n')) {
    const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (keyword === 'HELP') {
      assert.ok(!families.has(name), `${name} has two blocks`);
      [current, help] = [name, rest];
    } else if (keyword === 'TYPE') {
      assert.equal(name, current, 'TYPE must follow its HELP');
      assert.match(rest, /^(counter|gauge|histogram)$/);
      families.set(name, { type: rest, help: help ?? '', samples: [] });
    } else {
      const [, sample = '', labelText = '', value = ''] = sampleLine.exec(line) ?? [];
      assert.notEqual(sample, '', `a malformed line: ${line}`);
      const family = families.get(current);
      assert.ok(
        family !== undefined &&
          (sample === current || /^_(bucket|sum|count)$/.test(sample.slice(current.length))),
      );
      assert.ok(sample.startsWith(current), `${sample} is not in the block of its family`);
      const key = line.slice(0, line.lastIndexOf(' '));
      assert.ok(!seen.has(key), `once: ${key}`);
      seen.add(key);
      const number = Number(value.replace('Inf', 'Infinity'));
      family.samples.push({ name: sample, labels: parseLabels(labelText), value: number });
    }
  }
  return families;
}

function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  labelPart.lastIndex = 0;
  while (labelPart.lastIndex < text.length) {
    const [, name = '', value = ''] = labelPart.exec(text) ?? [];
    assert.notEqual(name, '', `labels: ${text}`);
    assert.equal(labels[name], undefined, `${name} once`);
    labels[name] = value.replace(/\\(.)/g, (_, character: string) => (character === 'n' ? '\n' : character));
  }
  return labels;
}
