/** Of an error, or of what has caused it: this system does not trust the TLS certificate of the other side. */
export const isUntrusted = (error: unknown): boolean =>
  error instanceof Error && (('code' in error && /CERT|SELF_SIGNED|VERIFY/.test(String(error.code))) || isUntrusted(error.cause))

/** What to try where the certificate is not that of a bridge, whose key would be pinned. */
export const trustHint = 'trust the authority of its certificate, with NODE_EXTRA_CA_CERTS: docs/brokers.md'
