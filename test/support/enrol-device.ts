import { join } from 'node:path'
import { type Enrolment, enrol, requestGrant } from '../../agent/identity/enrolment.ts'
import { keyFileOf, readDeviceKey } from '../../agent/identity/key-file.ts'
import type { IdentityStore } from '../../cloud-bridge/identity/store.ts'
import { invitationText } from '../../core/wire/protocol/identity.ts'

export interface EnrolledDevice {
  readonly enrolment: Enrolment
  /** Token for the data plane, from a new grant. */
  token(): Promise<string>
  /** Password for the control plane, from a new grant. */
  mqttPassword(): Promise<string>
}

/** Enrols a device at the world's bridge: creates a token as an operator does, and uses it as a device does. */
export async function enrolDevice(
  world: { readonly dir: string; readonly bridge: { readonly httpUrl: string; readonly pin?: string | undefined } },
  store: IdentityStore,
  device: string,
  folder = device,
): Promise<EnrolledDevice> {
  const { token, secret } = store.createToken('operator:test', { group: 'default', uses: 1, expiresS: 60, approve: true })
  const { httpUrl: url, pin } = world.bridge
  const invitation = invitationText({ url, id: token.id, secret, ...(pin === undefined ? {} : { pin }) })
  const stateDir = join(world.dir, folder)
  const { status: _, group: __, ...enrolment } = await enrol({ stateDir, device, token: invitation, replace: false })
  const session = () => requestGrant(enrolment, readDeviceKey(keyFileOf(stateDir)), new AbortController().signal)
  return {
    enrolment,
    token: async () => (await session()).token,
    async mqttPassword() {
      const { token, mqttPassword = token } = await session()
      return mqttPassword
    },
  }
}
