import { once } from 'node:events'
import { WebSocket } from 'ws'
import { decodeFault, type Fault } from '../../core/wire/protocol/fault.ts'
import { decodeFrame, decodeStates, encodeFrame, type Frame, type FrameTree } from '../../core/wire/protocol/frame.ts'
import { sessionBits, sessionHex, ToDevice } from '../../core/wire/protocol/messages.ts'
import type { States } from '../../core/wire/protocol/states.ts'

export interface OpenSession {
  readonly id: bigint
  readonly epoch: number
  readonly hex: string
  readonly chunkTokens: number
  /** Positions that the session starts with, from a cached prefix. */
  readonly held: number
}

export interface SendOptions {
  readonly base: number
  readonly states: States
  /** Deep rows to return; default: all. */
  readonly want?: number
  readonly seq?: number
  readonly tree?: FrameTree
}

export interface TestDevice extends AsyncDisposable {
  readonly socket: WebSocket
  /** Everything received, in order. */
  readonly messages: ToDevice[]
  readonly frames: Frame[]
  /** Resolves with the code and reason when the connection has closed. */
  readonly closed: Promise<{ code: number; reason: string }>
  sendMessage(message: unknown): void
  open(modelId: string, resume?: { handle: string; length: number }): Promise<OpenSession>
  /** Asks for a session of this id; its frames may be sent at once. */
  openEarly(modelId: string, id: bigint): OpenSession & { readonly request: number }
  /** Sends rows under the next seq; @returns that seq */
  send(session: OpenSession, options: SendOptions): number
  /** The first frame with this seq of the session. */
  reply(session: Pick<OpenSession, 'id'>, seq: number): Promise<Frame>
  /** Sends rows, returns the deep rows. */
  rows(session: OpenSession, options: SendOptions): Promise<States>
  fault(session: Pick<OpenSession, 'id'>): Promise<Fault>
  /** Resolves when the bridge has received everything sent so far. */
  flushed(): Promise<void>
}

/** A device that speaks the protocol and has no model. */
export async function connectDevice(dataUrl: string, device: string, width: number, token?: string): Promise<TestDevice> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  const socket = new WebSocket(dataUrl, { perMessageDeflate: false, headers })
  const messages: ToDevice[] = []
  const frames: Frame[] = []
  let changed: (() => void)[] = []
  let seqs = 0
  let requests = 0
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.once('close', (code, reason) => {
      resolve({ code, reason: reason.toString() })
      wake()
    })
  })
  function wake(): void {
    const waiters = changed
    changed = []
    for (const resolve of waiters) resolve()
  }
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) frames.push(decodeFrame(Uint8Array.from(data)))
    else messages.push(ToDevice.parse(JSON.parse(data.toString())))
    wake()
  })
  socket.on('error', () => {})
  await once(socket, 'open')

  async function until<T>(find: () => T | undefined): Promise<T> {
    for (;;) {
      const found = find()
      if (found !== undefined) return found
      if (socket.readyState === WebSocket.CLOSED) throw new Error('the connection is closed')
      await new Promise<void>((resolve) => changed.push(resolve))
    }
  }
  const reply = (session: Pick<OpenSession, 'id'>, seq: number) =>
    until(() => frames.find((frame) => frame.session === session.id && frame.seq === seq))
  function send(session: OpenSession, { base, states, want = states.rows, seq = ++seqs, tree }: SendOptions): number {
    socket.send(encodeFrame({ type: 'rows', session: session.id, epoch: session.epoch, seq, base, want }, states, { tree }))
    return seq
  }
  const sendMessage = (message: unknown) => socket.send(typeof message === 'string' ? message : JSON.stringify(message))

  sendMessage({ type: 'hello', v: 1, device, birth: 1 })
  return {
    socket,
    messages,
    frames,
    closed,
    sendMessage,
    send,
    reply,
    async open(modelId, resume) {
      const request = ++requests
      sendMessage({ type: 'open', request, modelId, resume })
      const reply = await until(() => messages.find((message) => 'request' in message && message.request === request))
      if (reply.type !== 'opened') throw Object.assign(new Error('refused'), reply)
      const { epoch, session: hex, chunkTokens, held } = reply
      return { id: sessionBits(hex), epoch, hex, chunkTokens, held }
    },
    openEarly(modelId, id) {
      const request = ++requests
      sendMessage({ type: 'open', request, modelId, session: sessionHex(id) })
      return { id, epoch: 0, hex: sessionHex(id), chunkTokens: 1, held: 0, request }
    },
    async rows(session, options) {
      const frame = await reply(session, send(session, options))
      if (frame.type !== 'deep') throw new Error(`unexpected frame ${frame.type}: ${Buffer.from(frame.payload).toString()}`)
      return decodeStates(frame, width)
    },
    async fault(session) {
      return decodeFault(await until(() => frames.find((frame) => frame.session === session.id && frame.type === 'fault')))
    },
    async flushed() {
      const pong = once(socket, 'pong')
      socket.ping()
      await pong
    },
    async [Symbol.asyncDispose]() {
      socket.terminate()
      await closed
    },
  }
}
