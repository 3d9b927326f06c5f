import { Duplex } from 'node:stream'

/** The two ends of a connection within this process: what is written to one is read from the other. */
export function openMemoryConnection(): readonly [Duplex, Duplex] {
  const [a, b] = [new End(), new End()]
  a.join(b)
  b.join(a)
  return [a, b]
}

class End extends Duplex {
  #peer: End | undefined
  /** Of the peer: it may write more. */
  #onRead: (() => void) | undefined

  join(peer: End): void {
    this.#peer = peer
  }

  override _read(): void {
    const onRead = this.#onRead
    this.#onRead = undefined
    onRead?.()
  }

  override _write(chunk: Uint8Array, _encoding: string, done: () => void): void {
    this.#peer?.receive(chunk, done)
  }

  override _writev(chunks: { chunk: Uint8Array }[], done: () => void): void {
    this.#peer?.receive(Buffer.concat(chunks.map(({ chunk }) => chunk)), done)
  }

  override _final(done: () => void): void {
    this.#peer?.push(null)
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#peer?.destroy()
    done(error)
  }

  receive(chunk: Uint8Array, done: () => void): void {
    if (this.push(chunk)) done()
    else this.#onRead = done
  }
}
