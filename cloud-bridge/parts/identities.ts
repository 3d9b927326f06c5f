import { clientName } from '../../core/answer/api/request.ts'
import { brokerNodes, brokerPort, mqttPath } from '../../core/wire/protocol/mqtt-url.ts'
import type { ControlBroker } from '../broker/control-broker.ts'
import { enrolmentRefusal } from '../identity/exposure.ts'
import { createIdentities, type Identities } from '../identity/identities.ts'
import { deviceCaller } from '../identity/quotas.ts'
import { answerOwner } from '../llm/endpoint.ts'
import type { Access } from './access.ts'
import type { Base } from './base.ts'
import type { OpenServing } from './serving.ts'
import type { Stores } from './stores.ts'
import type { FleetWork } from './work.ts'

const dayMs = 86_400_000

/** Enrolment and the renewal of grants; a device that loses its grant is disconnected everywhere. */
export function openIdentities(
  { config, clock, closers, logger }: Base,
  { identityStore }: Stores,
  { devices, expansions }: FleetWork,
  { grants, certificate, tlsPins }: Access,
  broker: ControlBroker,
  { serving, plane }: OpenServing,
): Identities {
  const nodes = broker.url === undefined ? [] : brokerNodes(broker.url)
  const identities = createIdentities({
    store: identityStore,
    grants,
    bridge: config.id,
    fleet: config.fleet,
    keys: { validMs: config.deviceKeyDays * dayMs },
    tlsPins: tlsPins?.all,
    failedProofsPerMinute: config.limits.failedProofsPerMinute,
    authRequiredOnceEnrolled: config.auth !== false,
    onAuthRequired() {
      broker.dropUnproven()
      for (const device of plane.dropUnproven()) serving.purge(device)
      // No device has proven its identity, the one that enrols included.
      devices.forgetExcept(() => false)
      expansions.profiles.forgetAll()
    },
    refusal: enrolmentRefusal(config),
    controlPlane: {
      ...(nodes[0] === undefined ? { mqttPath } : { mqttPort: brokerPort(nodes[0]) }),
      mqttTls: certificate !== undefined,
      mqttUrl: broker.external ? nodes[0] : undefined,
      mqttUrls: nodes.length > 1 ? nodes : undefined,
    },
    onEnrolled: (device, labels) => void devices.labels.change(device, { set: labels, unset: [] }),
    onGrant: (device) => broker.admit(device),
    onGrantEnd(device) {
      broker.disconnect(device)
      plane.disconnect(device)
      serving.purge(device)
      serving.purge(answerOwner(clientName(deviceCaller(device))))
    },
    clock,
    logger: logger.child({ component: 'identity' }),
  })
  closers.push(identities.close)
  return identities
}
