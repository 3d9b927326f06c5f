/**
 * A full waiting room has a place for one more of this client if another client has more than its share: the client with the most
 * gives up its latest (longest queue drop). So each of k clients can always hold a k-th of the room, and one alone all of it.
 * @param waiting how many of each client wait
 * @returns the client that gives up one; undefined: the newcomer is refused
 */
export function clientToDisplace(waiting: ReadonlyMap<string, number>, client: string): string | undefined {
  let most: string | undefined
  // With less than two more, the two would only swap their counts.
  let mostCount = (waiting.get(client) ?? 0) + 1
  for (const [other, count] of waiting)
    if (count > mostCount) {
      most = other
      mostCount = count
    }
  return most
}
