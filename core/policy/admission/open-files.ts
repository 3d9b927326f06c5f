/** Connections per listener that a process may hold. */
export interface ListenerShares {
  readonly mqtt: number
  readonly http: number
}

/** A response may hold a file beside its socket: the one that it sends. */
const filesPerHttpConnection = 2
/** A listener that accepts fewer is of no use; the process then fails at its limit of open files. */
const minShare = 16

/**
 * Connections that leave `reserved` files for databases, logs and outgoing connections. Both listeners shrink alike, so
 * connections to one never take the files of the other.
 * @param maxFiles the process's limit of open files; Infinity: none
 */
export function shareOpenFiles(wanted: ListenerShares, maxFiles: number, reserved: number): ListenerShares {
  const needed = wanted.mqtt + filesPerHttpConnection * wanted.http
  const scale = Math.min(1, (maxFiles - reserved) / needed)
  const share = (connections: number) => Math.max(Math.min(minShare, connections), Math.floor(connections * scale))
  return { mqtt: share(wanted.mqtt), http: share(wanted.http) }
}
