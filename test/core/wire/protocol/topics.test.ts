import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  allDevices,
  bridgeStateTopic,
  deviceTopic,
  deviceTopics,
  idPattern,
  parseDeviceTopic,
} from '../../../../core/wire/protocol/topics.ts'

const id = fc.stringMatching(/^[a-z0-9]([a-z0-9_-]{0,20}[a-z0-9])?$/)

describe('topics', () => {
  it('parse to the device and leaf they were built from', () => {
    fc.assert(
      fc.property(id, id, fc.constantFrom(...deviceTopics), (fleet, device, leaf) => {
        expect(parseDeviceTopic(fleet, deviceTopic(fleet, device, leaf))).toEqual({ device, leaf })
      }),
    )
  })

  it('of another fleet, with more levels or with unknown leaves are rejected', () => {
    expect(parseDeviceTopic('north', deviceTopic('south', 'jetson-01', 'state'))).toBeUndefined()
    expect(parseDeviceTopic('north', 'brim/v1/north/device/jetson-01/state/x')).toBeUndefined()
    expect(parseDeviceTopic('north', 'brim/v1/north/device/jetson-01/secrets')).toBeUndefined()
    expect(parseDeviceTopic('north', 'brim/v1/north/device/+/state')).toBeUndefined()
    expect(parseDeviceTopic('north', bridgeStateTopic('north', 'jetson-01'))).toBeUndefined()
  })

  it('reject ids that are empty or contain a separator, a wildcard, a capital or a line end', () => {
    for (const bad of ['a/b', '+', '#', 'a+', '', 'Jetson', 'jetson\n', '-a', 'a-', 'a'.repeat(65), 'ü'])
      expect(() => deviceTopic('default', bad, 'state'), bad).toThrow(RangeError)
    expect(() => allDevices('a/#', 'state')).toThrow(RangeError)
    expect('a'.repeat(64)).toMatch(idPattern)
  })
})
