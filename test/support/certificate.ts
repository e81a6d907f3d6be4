import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

export interface Certificate {
  /** In PEM. */
  readonly cert: string;
  readonly key: string;
}

/**
 * A self-signed certificate for localhost and 127.0.0.1, valid since `daysOld` days for `daysLeft` more days. With an
 * empty name it has no subject.
 */
export function createCertificate(commonName = 'localhost', daysLeft = 1, daysOld = 1): Certificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const name =
    commonName === '' ? sequence() : sequence(tagged(0x31, sequence(oid('550403'), utf8(commonName))));
  const day = 24 * 60 * 60 * 1_000;
  const alternatives = sequence(
    tagged(0x82, Buffer.from('localhost')),
    tagged(0x87, Buffer.from([127, 0, 0, 1])),
  );
  const body = sequence(
    tagged(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    ecdsaWithSha256,
    name,
    sequence(time(Date.now() - daysOld * day), time(Date.now() + daysLeft * day)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(sequence(oid('551d11'), tagged(0x04, alternatives)))),
  );
  const signature = tagged(0x03, Buffer.concat([Buffer.from([0]), sign('sha256', body, privateKey)]));
  const der = sequence(body, ecdsaWithSha256, signature);
  const lines = der.toString('base64').replace(/.{64}(?=.)/g, '$&\n');
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

// DER (X.690): a tag, the length, the content.
function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const long =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...long]), content]);
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

function integer(bytes: Buffer): Buffer {
  return tagged(0x02, bytes);
}

function utf8(text: string): Buffer {
  return tagged(0x0c, Buffer.from(text));
}

function oid(hex: string): Buffer {
  return tagged(0x06, Buffer.from(hex, 'hex'));
}

/** As UTCTime: YYMMDDhhmmssZ. */
function time(at: number): Buffer {
  const digits = new Date(at).toISOString().replace(/\D/g, '').slice(2, 14);
  return tagged(0x17, Buffer.from(`${digits}Z`));
}

const ecdsaWithSha256 = sequence(oid('2a8648ce3d040302'));
