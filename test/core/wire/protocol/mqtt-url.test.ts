import { expect, it } from 'vitest'
import { readAgentConfig } from '../../../../agent/config.ts'
import { brokerNodes, brokerServers, shownBroker, withMqttPort } from '../../../../core/wire/protocol/mqtt-url.ts'

it.each([
  ['mqtt://10.0.0.5', 'mqtt://10.0.0.5:1883'],
  ['mqtts://10.0.0.5', 'mqtts://10.0.0.5:8883'],
  ['mqtts://broker.example/', 'mqtts://broker.example:8883'],
  ['mqtts://[::1]', 'mqtts://[::1]:8883'],
  ['mqtt://10.0.0.5:1884', 'mqtt://10.0.0.5:1884'],
  ['mqtts://10.0.0.5:1883', 'mqtts://10.0.0.5:1883'],
  ['mqtts://a,mqtts://[::1]:1', 'mqtts://a:8883,mqtts://[::1]:1'],
  ['ws://a/mqtt?x=1,2', 'ws://a:80/mqtt?x=1,2'],
])('%s is %s', (url, whole) => {
  expect(withMqttPort(url)).toBe(whole)
  expect(withMqttPort(whole)).toBe(whole)
})

it('a broker has the nodes whose URLs are separated by commas', () => {
  const url = 'mqtt://a:1883,mqtts://name:secret@[::1]:1'
  expect(brokerNodes(url)).toEqual(['mqtt://a:1883', 'mqtts://name:secret@[::1]:1'])
  expect(brokerServers(url)).toEqual([
    { protocol: 'mqtt', host: 'a', port: 1883 },
    { protocol: 'mqtts', host: '::1', port: 1 },
  ])
  expect(shownBroker(url)).toBe('mqtt://a:1883, mqtts://[::1]:1')
  const settings = { bundle: 'b', id: 'jetson-01', stateDir: 's' }
  expect(readAgentConfig({ ...settings, bridges: ['mqtt://a,mqtt://b'] }).bridges).toEqual(['mqtt://a:1883,mqtt://b:1883'])
  expect(() => readAgentConfig({ ...settings, bridges: ['mqtt://a,http://b'] })).toThrow('must be a URL like')
})

it('an agent takes two spellings of one bridge as one', () => {
  const settings = { bundle: 'b', id: 'jetson-01', stateDir: 's' }
  expect(readAgentConfig({ ...settings, bridges: ['mqtts://a'] }).bridges).toEqual(['mqtts://a:8883'])
  expect(() => readAgentConfig({ ...settings, bridges: ['mqtt://a', 'mqtt://a:1883'] })).toThrow('the same bridge twice')
})
