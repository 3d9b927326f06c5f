import { adminOperations } from './admin.ts'
import { answerOperations } from './answers.ts'
import { bridgeOperations } from './bridge.ts'
import { brokerHookOperations } from './broker-hooks.ts'
import { bundleOperations } from './bundles.ts'
import { deviceOperations, fleetOperations } from './devices.ts'
import { identityOperations } from './identity.ts'
import { jobOperations } from './jobs.ts'
import type { Operations } from './operation.ts'
import { pageOperations } from './page.ts'
import { releaseOperations } from './releases.ts'
import { rolloutOperations } from './rollouts.ts'
import { uploadOperations } from './uploads.ts'
import { whatIfOperations } from './what-if.ts'

/** Every operation of a bridge's HTTP API, by the tag that docs/openapi.json groups it under. */
export const allOperations: Readonly<Record<string, Operations>> = {
  answers: answerOperations,
  bridge: bridgeOperations,
  fleet: fleetOperations,
  devices: deviceOperations,
  jobs: jobOperations,
  rollouts: rolloutOperations,
  bundles: bundleOperations,
  releases: releaseOperations,
  uploads: uploadOperations,
  whatIf: whatIfOperations,
  admin: adminOperations,
  identity: identityOperations,
  brokerHooks: brokerHookOperations,
  page: pageOperations,
}
