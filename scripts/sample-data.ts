import { post } from './harness/post.ts';

// biome-ignore format: one line for each name is longer to read.
const names = [
  'Ada Lovelace', 'Grace Hopper', 'Katherine Johnson', 'Alan Turing', 'Radia Perlman', 'Barbara Liskov',
  'فاطمة الفهرية', 'Donald Knuth', 'Margaret Hamilton', 'Edsger W. Dijkstra', '林小雨', 'Annie Easley',
  'Evelyn Boyd Granville', 'Frances Allen 👩🏽‍💻', 'Tim Berners-Lee', 'Hedy Lamarr',
  'محمد بن موسى الخوارزمي', 'Karen Spärck Jones', 'Leslie Lamport', 'Sophie Wilson', 'Niklaus Wirth',
  'Anita Borg', 'John McCarthy', 'Shafi Goldwasser', 'Ken Thompson', 'Lynn Conway', 'Mary Kenneth Keller',
  'Dennis Ritchie', 'Adele Goldberg', 'Fei-Fei Li',
  'Hubert Blaine Wolfeschlegelsteinhausenbergerdorff, who signed with all of his names on every form he was ever handed',
  'Vint Cerf', 'Joan Clarke', 'Seymour Papert', 'Jean Bartik', 'Guido van Rossum', 'Yukihiro Matsumoto',
  'Ida Rhodes', 'Bjarne Stroustrup', 'Whitfield Diffie',
];
const roles = ['admin', 'editor', 'author', 'editor', 'viewer', undefined];
const posts = [
  ['Notes on the first program', 'It weaves algebraic patterns just as the loom weaves flowers and leaves.'],
  ['On orbits', 'Checked by hand before the launch.\nThe machine agreed to the last digit.'],
  ['Reading list for the summer', ''],
  ['A small remark on rounding', 'Two wrongs do not cancel out; they only look smaller on paper.'],
] as const;

/** Fills a service with sample users. Most of them have no posts. */
export async function fillWithSamples(http: string): Promise<void> {
  for (let i = 0; i < 3 * names.length; i += 1) {
    const role = roles[(i * 5) % roles.length];
    await post(`${http}/users`, { name: names[i % names.length], ...(role !== undefined && { role }) });
  }
  for (const [title, body] of posts) await post(`${http}/users/3/posts`, { title, body });
}
