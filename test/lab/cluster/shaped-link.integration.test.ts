import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { type LinkShape, type ShapedLink, startShapedLink } from '../../../lab/cluster/shaped-link.ts'

const open: (Server | Socket | ShapedLink)[] = []
afterEach(async () => {
  for (const each of open.splice(0)) {
    if ('startOver' in each) await each[Symbol.asyncDispose]()
    else if ('listen' in each) each.close()
    else each.destroy()
  }
})

const steady = (bytesPerS: number, delayMs = 0) => ({
  rates: { intervalMs: 1_000, bytesPerS: [bytesPerS] },
  delayMs,
  jitterMs: 0,
})
const shapeOf = (up: number, down: number, delayMs = 0): LinkShape => ({ up: steady(up, delayMs), down: steady(down, delayMs) })

/** A server behind a shaped link, and a way to connect to it. */
async function serve(shape: LinkShape, onConnection: (socket: Socket) => void) {
  const server = createServer({ allowHalfOpen: true }, onConnection).listen(0, '127.0.0.1')
  open.push(server)
  await once(server, 'listening')
  const link = await startShapedLink({ target: (server.address() as AddressInfo).port, shape, random: seededRandom(1) })
  open.push(link)
  return {
    link,
    connect(): Socket {
      const socket = connect({ port: link.port, host: '127.0.0.1', allowHalfOpen: true })
      open.push(socket)
      return socket
    },
  }
}

async function allOf(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of socket) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

const noise = (bytes: number, seed: number) => {
  const random = seededRandom(seed)
  return Buffer.from(Array.from({ length: bytes }, () => Math.floor(random.next() * 256)))
}
const fast = 1e9

describe('a shaped link', () => {
  it('delivers every byte in order, in both directions, and then the end', async () => {
    const [question, answer] = [noise(300_000, 1), noise(200_000, 2)]
    let asked: Promise<Buffer> | undefined
    const { connect } = await serve(shapeOf(fast, fast, 1), (socket) => {
      asked = allOf(socket)
      socket.end(answer)
    })
    const socket = connect()
    socket.end(question)
    expect((await allOf(socket)).equals(answer)).toBe(true)
    expect((await asked!).equals(question)).toBe(true)
  })

  it('takes at least the time of its rates and delay', async () => {
    const { link, connect } = await serve(shapeOf(200_000, 1_000_000, 5), (socket) => {
      socket.on('error', () => {})
      socket.pipe(socket)
    })
    const socket = connect()
    await once(socket, 'connect')
    const startedMs = link.nowMs()
    socket.end(noise(20_000, 3))
    expect(await allOf(socket)).toHaveLength(20_000)
    // 100 ms up and the last packet down again, 5 ms each way; a burst of 1 ms is free, as is a timer's grain.
    expect(link.nowMs() - startedMs).toBeGreaterThan(100 + 10 - 3)
  })

  it('starts its traces at the given time', async () => {
    const rates = { intervalMs: 100_000, bytesPerS: [1_000, 1_000_000_000] }
    const direction = { rates, delayMs: 0, jitterMs: 0 }
    const { link, connect } = await serve({ up: direction, down: direction }, (socket) => socket.pipe(socket))
    link.startOver(150_000)
    const socket = connect()
    // At the first interval's rate this would take minutes.
    socket.end(noise(100_000, 4))
    expect(await allOf(socket)).toHaveLength(100_000)
    expect(link.nowMs()).toBeGreaterThan(150_000)
  })

  it('stops reading when its backlog is long, so the sender notices', async () => {
    let received = 0
    const { connect } = await serve(shapeOf(50_000, fast), (socket) => {
      socket.on('error', () => {})
      socket.on('data', (bytes) => {
        received += bytes.length
      })
    })
    const socket = connect()
    socket.on('error', () => {})
    await once(socket, 'connect')
    const chunk = Buffer.alloc(1 << 20)
    // Far more than all buffers on the way can hold.
    for (let i = 0; i < 64; i++) socket.write(chunk)
    await expect.poll(() => received).toBeGreaterThan(2_000)
    expect(socket.writableLength).toBeGreaterThan(32 << 20)
  })

  it('shares its rate between connections, and starves none', async () => {
    const { connect } = await serve(shapeOf(fast, 400_000), (socket) => socket.end(noise(60_000, 5)))
    const startedMs = performance.now()
    const bodies = await Promise.all([connect(), connect()].map(allOf))
    expect(bodies.map((body) => body.length)).toEqual([60_000, 60_000])
    expect(performance.now() - startedMs).toBeGreaterThan(300 - 3)
  })

  it.each(['near', 'far'])('passes on an error of the %s side', async (side) => {
    let far: Socket | undefined
    const { connect } = await serve(shapeOf(fast, fast), (socket) => {
      socket.on('error', () => {}).resume()
      far = socket
    })
    const near = connect()
    near.on('error', () => {}).resume()
    await expect.poll(() => far).toBeDefined()
    // Not `once`: that would fail with the error that is meant to come.
    const closed = [near, far!].map((socket) => new Promise((done) => socket.on('close', () => done(socket.destroyed))))
    const breaking = side === 'near' ? near : far!
    breaking.resetAndDestroy()
    expect(await Promise.all(closed)).toEqual([true, true])
  })
})
