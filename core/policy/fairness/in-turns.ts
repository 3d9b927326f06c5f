export interface OfClient {
  readonly client: string
}

export function hasSeveralClients(items: readonly OfClient[]): boolean {
  const first = items[0]?.client
  return items.some(({ client }) => client !== first)
}

export function countByClient(items: readonly OfClient[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { client } of items) counts.set(client, (counts.get(client) ?? 0) + 1)
  return counts
}

export function ofLeastServed<T extends OfClient>(items: readonly T[], served: ReadonlyMap<string, number>): readonly T[] {
  const servedTo = ({ client }: T) => served.get(client) ?? 0
  const least = items.reduce((fewest, item) => Math.min(fewest, servedTo(item)), Number.POSITIVE_INFINITY)
  return items.filter((item) => servedTo(item) === least)
}

const none: ReadonlyMap<string, number> = new Map()

/**
 * The turn of each item: how many items its client has before it. Served by their turns, no client is ahead of another by more than
 * one item.
 * @param ordered in the order of each client's items
 * @param held how many each client has before all of these
 */
export function turnsOf(ordered: readonly OfClient[], held: ReadonlyMap<string, number> = none): Float64Array {
  const next = new Map(held)
  const turns = new Float64Array(ordered.length)
  for (let at = 0; at < turns.length; at += 1) {
    const { client } = ordered[at]!
    const turn = next.get(client) ?? 0
    turns[at] = turn
    next.set(client, turn + 1)
  }
  return turns
}

/** The items by their turns: each client's first ones, then the second ones, and so on; the order is kept within a turn and a client. */
export function inTurns<T extends OfClient>(ordered: readonly T[], held: ReadonlyMap<string, number> = none): readonly T[] {
  if (!hasSeveralClients(ordered)) return ordered
  const turns = turnsOf(ordered, held)
  return Array.from(ordered.keys())
    .sort((a, b) => turns[a]! - turns[b]!)
    .map((at) => ordered[at]!)
}
