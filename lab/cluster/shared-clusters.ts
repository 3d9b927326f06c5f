/** Clusters by what distinguishes them, started and warmed up when they are first needed, and disposed together. */
export class SharedClusters<Key, Started extends AsyncDisposable> implements AsyncDisposable {
  readonly #start: (key: Key) => Promise<Started>
  readonly #warmUp: (cluster: Started) => Promise<void>
  readonly #started = new Map<Key, Promise<Started>>()
  readonly #warm = new Map<Key, Promise<Started>>()

  constructor(start: (key: Key) => Promise<Started>, warmUp: (cluster: Started) => Promise<void>) {
    this.#start = start
    this.#warmUp = warmUp
  }

  of(key: Key): Promise<Started> {
    const before = this.#warm.get(key)
    if (before) return before
    const started = this.#start(key)
    const warm = started.then(async (cluster) => {
      await this.#warmUp(cluster)
      return cluster
    })
    this.#started.set(key, started)
    this.#warm.set(key, warm)
    return warm
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const started = await Promise.allSettled(this.#started.values())
    await Promise.all(started.map((each) => (each.status === 'fulfilled' ? each.value[Symbol.asyncDispose]() : undefined)))
  }
}
