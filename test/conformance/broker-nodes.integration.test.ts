import { afterEach, expect, it } from 'vitest'
import { ControlLink } from '../../agent/link/control-link.ts'
import { systemClock } from '../../core/kit/base/clock.ts'
import { portOf, startRelay } from '../../lab/cluster/relay.ts'
import { startBroker } from '../support/broker.ts'
import { joinFleet } from '../support/join-fleet.ts'
import { silentLogger } from '../support/silent-logger.ts'

const closers: (() => PromiseLike<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

/** A broker that is reached at two addresses, and a third one where nothing listens. */
async function brokerOfNodes() {
  const broker = await startBroker()
  const relays = [await startRelay(portOf(broker.url)), await startRelay(portOf(broker.url))] as const
  closers.push(() => broker[Symbol.asyncDispose](), ...relays.map((relay) => () => relay[Symbol.asyncDispose]()))
  const url = ['mqtt://127.0.0.1:1', ...relays.map(({ port }) => `mqtt://127.0.0.1:${port}`)].join(',')
  const open = () => relays.filter(({ connections }) => connections.some(({ isOpen }) => isOpen))
  return {
    url,
    /** The node in use dies. @returns the node that is left */
    killUsed() {
      const [used] = open()
      used!.target = 1
      used!.cut()
      return relays.find((relay) => relay !== used)!
    },
    open,
  }
}

it('an agent connects to a node that it can reach, and goes on at another one when that dies', async () => {
  const nodes = await brokerOfNodes()
  const link = new ControlLink({
    url: nodes.url,
    fleet: 'default',
    device: 'orin',
    birth: 1,
    agent: '0.2.0',
    modelId: undefined,
    clock: systemClock,
    random: { next: () => 0.05 },
    reconnectMaxS: 30,
    logger: silentLogger(),
    onBridges: () => {},
    heartbeatS: 30,
  })
  closers.push(() => link.close())
  link.start([])
  await expect.poll(() => link.connected).toBe(true)
  const left = nodes.killUsed()
  await expect.poll(() => link.connected && nodes.open()).toEqual([left])
})

it('a bridge connects to a node that it can reach, and goes on at another one when that dies', async () => {
  const nodes = await brokerOfNodes()
  const control = await joinFleet(nodes.url, { birth: 1 })
  closers.push(() => control.close())
  const left = nodes.killUsed()
  await expect.poll(() => control.connected && nodes.open()).toEqual([left])
})
