import { expect, it } from 'vitest'
import { BridgeLimits } from '../../cloud-bridge/limits.ts'
import { listenerSettings } from '../../cloud-bridge/listener-settings.ts'
import { recordingLogger } from '../support/recording-logger.ts'

it.each([
  ['is silent where a fleet of a thousand fits', {}, 20_000, 0],
  ['warns where it does not', {}, 1_024, 1],
  ['is silent where the operator asked for few connections', { mqttConnections: 100, httpConnections: 100 }, 1_024, 0],
])('%s', (_, given, maxFiles, warnings) => {
  const { logger, lines } = recordingLogger('warn')
  listenerSettings(BridgeLimits.parse(given), maxFiles, logger)
  expect(lines).toHaveLength(warnings)
})
