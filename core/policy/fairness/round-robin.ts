/** Items that wait, of which the clients take turns: one that has many delays its own. Mutable. */
export class RoundRobin<T> {
  /** Client → its items, the next one first. The first client is next. */
  readonly #clients = new Map<string, T[]>()
  #size = 0

  get size(): number {
    return this.#size
  }

  /** @param goesBefore which of the client's own items come after the new one; absent: none */
  add(client: string, item: T, goesBefore: (other: T) => boolean = () => false): void {
    const own = this.#clients.get(client)
    const at = own?.findIndex(goesBefore) ?? -1
    if (!own) this.#clients.set(client, [item])
    else if (at < 0) own.push(item)
    else own.splice(at, 0, item)
    this.#size += 1
  }

  /** Takes one item; undefined where there is none. */
  next(): T | undefined {
    const [first] = this.#clients
    if (!first) return undefined
    const [client, items] = first
    this.#clients.delete(client)
    const item = items.shift()
    if (items.length > 0) this.#clients.set(client, items)
    this.#size -= 1
    return item
  }

  /** Without effect where the item does not wait. */
  remove(client: string, item: T): void {
    const own = this.#clients.get(client)
    const at = own?.indexOf(item) ?? -1
    if (!own || at < 0) return
    own.splice(at, 1)
    if (own.length === 0) this.#clients.delete(client)
    this.#size -= 1
  }
}
