import { enrol, requestGrant } from '../../../agent/identity/enrolment.ts'
import { keyFileOf, readDeviceKey } from '../../../agent/identity/key-file.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { invitationText } from '../../../core/wire/protocol/identity.ts'
import type { Flood } from '../../attack/flood.ts'
import { Cluster } from '../../cluster/cluster.ts'
import { rssMb } from '../../cluster/memory.ts'
import type { FloodAttack } from './flood-worker.ts'

interface AttackClusterOptions {
  /** Folder of a split bundle. */
  readonly bundle: string
  /** Each attacks with a device and a key of its own. */
  readonly floods: readonly Pick<Flood, 'name' | 'keyRole'>[]
  readonly io: Io
}

export type AttackCluster = Awaited<ReturnType<typeof startAttackCluster>>

/** The author of the keys and tokens in the audit log. */
const operator = 'operator:bench'
/** Far more than the benchmark sends: the honest operator's own quota must not show as latency. */
const honestQuota = { requestsPerMinute: 6_000, jobsPerDay: null }

/** A bridge that admits enrolled devices only, an enrolled agent, and identities for the measured device and the attacker. */
export function startAttackCluster({ bundle, floods, io }: AttackClusterOptions) {
  return Cluster.assembled({ bundle, env: io.env, signal: io.signal }, async (cluster) => {
    const bridge = await cluster.startBridge({ args: ['--auth'] })
    const { httpUrl, mqttUrl, dataUrl } = bridge.ready
    using store = openIdentityStore(cluster.stateDir('bridge'))
    const enrolled = async (device: string) => {
      const { token, secret } = store.createToken(operator, { group: 'default', uses: 1, expiresS: 600, approve: true })
      const stateDir = cluster.stateDir(device)
      const invitation = invitationText({ url: httpUrl, id: token.id, secret })
      const {
        status: _,
        group: __,
        ...enrolment
      } = await enrol({ stateDir, device, token: invitation, replace: false }, io.signal)
      return { id: device, token: (await requestGrant(enrolment, readDeviceKey(keyFileOf(stateDir)), io.signal)).token }
    }
    await enrolled('honest')
    const measured = await enrolled('measured')
    const agent = await cluster.startAgent({ id: 'honest', bridges: [mqttUrl] })
    const attacks: FloodAttack[] = []
    for (const { name: flood, keyRole = 'viewer' } of floods) {
      const { key: apiKey } = store.createKey(operator, flood, keyRole)
      const device = await enrolled(`attacker-${flood}`)
      attacks.push({ flood, target: { mqttUrl, httpUrl, dataUrl, agentUrl: agent.ready.apiUrl, device, apiKey } })
    }
    return {
      mqttUrl,
      httpUrl,
      attacks,
      measured,
      apiUrl: agent.ready.apiUrl,
      apiKey: store.createKey(operator, 'honest', 'operator', honestQuota).key,
      bridgeRssMb: () => rssMb(bridge.pid),
    }
  })
}
