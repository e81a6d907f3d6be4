interface Family {
  /** Its HELP and TYPE lines. */
  readonly head: string;
  readonly isGauge: boolean;
  readonly series: Map<string, number>;
}

/** The sum of several processes' metrics, each in Prometheus' text format as `Metrics` renders it. */
export function sumMetrics(texts: readonly string[]): string {
  const families = new Map<string, Family>();
  for (const text of texts) addText(families, text);
  return render([...families.values()]);
}

/** What is left of the metrics of a process that is gone: counts stay, or they would seem to fall. */
export function countersOf(text: string): string {
  const families = new Map<string, Family>();
  addText(families, text);
  return render([...families.values()].filter(({ isGauge }) => !isGauge));
}

function addText(families: Map<string, Family>, text: string): void {
  let help = '';
  let family: Family | undefined;
  for (const line of text.split('\n')) {
    if (line.startsWith('# HELP ')) {
      help = line;
    } else if (line.startsWith('# TYPE ')) {
      family = families.get(line) ?? {
        head: `${help}\n${line}`,
        isGauge: line.endsWith(' gauge'),
        series: new Map(),
      };
      families.set(line, family);
    } else if (line !== '') {
      const space = line.lastIndexOf(' ');
      const name = line.slice(0, space);
      family?.series.set(name, (family.series.get(name) ?? 0) + Number(line.slice(space + 1)));
    }
  }
}

function render(families: readonly Family[]): string {
  const lines = families.flatMap(({ head, series }) => [
    head,
    ...[...series].map(([name, value]) => `${name} ${value}`),
  ]);
  return lines.map((line) => `${line}\n`).join('');
}
