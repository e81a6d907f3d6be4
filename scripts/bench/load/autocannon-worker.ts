/** A process of its own for autocannon, so that it can be kept to the load's core. */
import autocannon from 'autocannon';

const { url, connections, seconds, requests } = JSON.parse(process.argv[2] ?? '{}');
const result = await autocannon({ url, connections, duration: seconds, requests });
process.stdout.write(
  JSON.stringify({
    requests: result.requests.total,
    seconds: result.duration,
    errors: result.errors + result.non2xx,
    bytes: result.throughput.total,
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
  }),
);
