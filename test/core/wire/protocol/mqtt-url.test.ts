import { expect, it } from 'vitest'
import { readAgentConfig } from '../../../../agent/config.ts'
import { withMqttPort } from '../../../../core/wire/protocol/mqtt-url.ts'

it.each([
  ['mqtt://10.0.0.5', 'mqtt://10.0.0.5:1883'],
  ['mqtts://10.0.0.5', 'mqtts://10.0.0.5:8883'],
  ['mqtts://broker.example/', 'mqtts://broker.example:8883'],
  ['mqtts://[::1]', 'mqtts://[::1]:8883'],
  ['mqtt://10.0.0.5:1884', 'mqtt://10.0.0.5:1884'],
  ['mqtts://10.0.0.5:1883', 'mqtts://10.0.0.5:1883'],
])('%s is %s', (url, whole) => {
  expect(withMqttPort(url)).toBe(whole)
  expect(withMqttPort(whole)).toBe(whole)
})

it('an agent takes two spellings of one bridge as one', () => {
  const settings = { bundle: 'b', id: 'jetson-01', stateDir: 's' }
  expect(readAgentConfig({ ...settings, bridges: ['mqtts://a'] }).bridges).toEqual(['mqtts://a:8883'])
  expect(() => readAgentConfig({ ...settings, bridges: ['mqtt://a', 'mqtt://a:1883'] })).toThrow('the same bridge twice')
})
