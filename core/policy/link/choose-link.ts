/** What the device knows of one of its links; each link leads to the bridges of one broker. */
export interface LinkStatus {
  /** Control plane. */
  readonly broker: 'connected' | 'unreachable'
  /** Data plane. `refused`: the device's owner requires evidence that it has not shown. */
  readonly bridge: 'connected' | 'unreachable' | 'mismatch' | 'refused'
  readonly bridgeId?: string
  readonly dataUrl?: string
  /** HAT sessions that it has announced. */
  readonly sessions?: number
}

export interface LinkPreference {
  /** Data plane of the bridge that has cached the prompt's beginning. */
  readonly cachedAt?: string | undefined
  /** Data plane of a bridge that has just failed a session of this answer. */
  readonly avoid?: string | undefined
}

/**
 * Order in which links are asked for a session: connected links first; a bridge to avoid last among them; then the bridge
 * with the cached prefix, then the least busy one, then the one configured first.
 * @returns indexes, best first
 */
export function rankLinks(links: readonly LinkStatus[], { cachedAt, avoid }: LinkPreference = {}): number[] {
  const rated = links.map((link, index) => ({
    index,
    merit: meritOf(link),
    avoided: Number(avoid !== undefined && link.dataUrl === avoid),
    cached: Number(cachedAt !== undefined && link.dataUrl === cachedAt),
    sessions: link.sessions ?? 0,
  }))
  rated.sort((a, b) => b.merit - a.merit || a.avoided - b.avoided || b.cached - a.cached || a.sessions - b.sessions)
  return rated.map(({ index }) => index)
}

function meritOf({ broker, bridge }: LinkStatus): number {
  if (bridge === 'connected') return 3
  if (bridge === 'mismatch' || bridge === 'refused') return 0
  return broker === 'connected' ? 2 : 1
}

/** Links that lead to the same bridge as an earlier one: the two would replace each other's connection again and again. @returns indexes */
export function duplicateLinks(links: readonly Pick<LinkStatus, 'dataUrl'>[]): number[] {
  const urls = links.map(({ dataUrl }) => dataUrl)
  return [...urls.keys()].filter((index) => urls[index] !== undefined && urls.indexOf(urls[index]) < index)
}
