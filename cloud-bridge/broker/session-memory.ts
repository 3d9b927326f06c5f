import { Readable } from 'node:stream'
import type { Client } from 'aedes'
import type { AedesPacket } from 'aedes-packet'
import { keptPayload } from './kept-payload.ts'
import { LevelTree } from './level-tree.ts'

type Publish = Extract<AedesPacket, { cmd: 'publish' }>
type Numbered = Pick<AedesPacket, 'messageId'>

/**
 * What the broker remembers between packets, behind aedes' interface for persistence: retained messages and incomplete messages
 * of QoS 2. Every session is clean and ends with its connection, so nothing is queued for absent clients, subscriptions are
 * those of aedes' clients, and so are wills.
 */
export class SessionMemory {
  readonly #retained = new LevelTree<Publish>()
  /** Client id → packet id → message of QoS 2 that waits for its PUBREL. */
  readonly #incoming = new Map<string, Map<number, AedesPacket>>()

  /** aedes requires that this function is asynchronous. */
  async setup(): Promise<void> {}

  async storeRetained(packet: Publish): Promise<void> {
    if (packet.payload.length === 0) this.#retained.delete(packet.topic)
    else this.#retained.set(packet.topic, { ...packet, payload: keptPayload(packet.payload) })
  }

  createRetainedStreamCombi(filters: readonly string[]): Readable {
    return streamOf(filters.flatMap((filter) => this.#retained.matchingFilter(filter)))
  }

  async incomingStorePacket({ id }: Client, packet: AedesPacket): Promise<void> {
    const known = this.#incoming.get(id) ?? new Map()
    this.#incoming.set(id, known.set(packet.messageId ?? 0, packet))
  }

  async incomingGetPacket({ id }: Client, { messageId = 0 }: Numbered): Promise<AedesPacket> {
    const packet = this.#incoming.get(id)?.get(messageId)
    if (!packet) throw unknownPacket
    return packet
  }

  async incomingDelPacket({ id }: Client, { messageId = 0 }: Numbered): Promise<void> {
    if (this.#incoming.get(id)?.delete(messageId) !== true) throw unknownPacket
  }

  async cleanIncoming({ id }: Client): Promise<void> {
    this.#incoming.delete(id)
  }

  // Sessions that outlive their connections: there are none.
  outgoingStream = (): Readable => streamOf([])
  subscriptionsByTopic = async (): Promise<readonly never[]> => []
  cleanSubscriptions = async (): Promise<void> => {}
  outgoingEnqueueCombi = async (): Promise<void> => {}
  outgoingClearMessageId = async (): Promise<void> => {}

  // Wills of other brokers of a cluster: there are none.
  putWill = async (): Promise<void> => {}
  delWill = async (): Promise<void> => {}
  streamWill = (): Readable => streamOf([])
}

/** As `Readable.from`, at a fraction of its cost: aedes asks for two streams per connection, most of them empty. */
function streamOf(packets: readonly Publish[]): Readable {
  let at = 0
  return new Readable({
    objectMode: true,
    read() {
      this.push(packets[at++] ?? null)
    },
  })
}

/** Without a stack: aedes asks for each message of QoS 2 whether it is known. */
const unknownPacket = new Error('no such packet')
