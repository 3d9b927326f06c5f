import { randomBytes } from 'node:crypto'
import type { MqttLogin } from '../../core/wire/protocol/identity.ts'
import { type Member, rulesOf } from '../identity/acl.ts'
import type { ControlBroker } from './control-broker.ts'
import { NatsAccount, type NatsAccountOptions } from './nats-account.ts'
import { refuseAnonymousBroker } from './refuse-anonymous.ts'

export interface DrivenNatsOptions extends Omit<NatsAccountOptions, 'name'> {
  readonly url: string
  readonly fleet: string
  readonly bridge: string
}

/**
 * A NATS cluster whose nodes admit this bridge and the devices with a grant; each may do what `rulesOf` says. Nothing is stored
 * at the cluster for a device that is admitted. When its grant ends, NATS closes its connection and publishes its will; so it does
 * with devices of an earlier start of the bridge. Client ids are secret: NATS lets any user take the place of a connection whose id
 * it knows. Subscriptions have QoS 0: at QoS 1 each is a replicated queue, which takes a cluster milliseconds to make and seconds
 * to lead again after a node has failed.
 * @throws BrimError BROKER_UNREACHABLE, NOT_AUTHORIZED, CONFIG_INVALID
 */
export async function driveNats({ url, fleet, bridge, ...options }: DrivenNatsOptions): Promise<ControlBroker> {
  await refuseAnonymousBroker(url)
  const account = await NatsAccount.open({ ...options, name: `brim-admin-${bridge}` })
  async function admit(member: Member): Promise<MqttLogin> {
    const user = `${member.kind}-${member.id}`
    const password = await account.admit(user, rulesOf(member, fleet))
    return { password, clientId: `${user}-${randomBytes(12).toString('hex')}`, subscribeQos: 0 }
  }
  return {
    url,
    external: true,
    login: await admit({ kind: 'bridge', id: bridge }),
    admit: (id) => admit({ kind: 'device', id }),
    disconnect: (device) => account.revoke(`device-${device}`),
    dropUnproven() {},
    close: () => account.close(),
  }
}
