import type { HomeState } from '../../wire/protocol/home.ts'
import type { Device } from '../../wire/protocol/http/devices.ts'
import type { DeviceState } from '../../wire/protocol/messages.ts'

type Field = Exclude<keyof HomeState, 'v'>

/** An entity in Home Assistant: what it shows is one field of the device's `HomeState`. */
interface HomeEntity {
  readonly field: Field
  readonly component: 'sensor' | 'binary_sensor' | 'switch'
  readonly name: string
  /** As Home Assistant's documentation of the component names it. Absent `value_template`: the field; null is "unknown". */
  readonly config: Readonly<Record<string, unknown>>
  /** Only devices with such hardware have it. */
  readonly isHardware?: true
  /** It tells something of a device that is away, too. */
  readonly outlivesDevice?: true
}

const sensor = (field: Field, name: string, config: HomeEntity['config']): HomeEntity => ({
  component: 'sensor',
  field,
  name,
  config,
})
const binary = (field: Field, name: string, config: HomeEntity['config']): HomeEntity => ({
  component: 'binary_sensor',
  field,
  name,
  config,
})
const ofHardware = (entity: HomeEntity): HomeEntity => ({ ...entity, isHardware: true })
const outliving = (entity: HomeEntity): HomeEntity => ({ ...entity, outlivesDevice: true })

const measured = (unit: string, deviceClass?: string) => ({
  unit_of_measurement: unit,
  state_class: 'measurement',
  ...(deviceClass && { device_class: deviceClass }),
})
const rate = { ...measured('B/s', 'data_rate'), suggested_display_precision: 0 }
const diagnostic = { entity_category: 'diagnostic' }
const states: readonly DeviceState['state'][] = ['init', 'ready', 'draining', 'disconnected', 'lost']
const request = (type: 'drain' | 'undrain') => JSON.stringify({ v: 1, type })
const drained = {
  value_template: "{{ 'ON' if value_json.state == 'draining' else 'OFF' }}",
  ...{ state_on: 'ON', state_off: 'OFF', payload_on: request('drain'), payload_off: request('undrain') },
  entity_category: 'config',
}
const problem = { value_template: "{{ 'ON' if value_json.problems else 'OFF' }}", device_class: 'problem' }
const problems = { value_template: "{{ (value_json.problems | map(attribute='kind') | join(', ')) or 'none' }}", ...diagnostic }
const throttled = {
  value_template: "{{ 'None' if value_json.isThrottled is none else 'ON' if value_json.isThrottled else 'OFF' }}",
  device_class: 'heat',
}

/** Each entity of a device, by the last part of its id. Every field of the payload has one. */
export const homeEntities: Readonly<Record<string, HomeEntity>> = {
  state: outliving(sensor('state', 'State', { device_class: 'enum', options: states })),
  problem: outliving(binary('problems', 'Problem', problem)),
  problems: outliving(sensor('problems', 'Problems', problems)),
  drain: { component: 'switch', field: 'state', name: 'Drained', config: drained },
  jobs: sensor('jobs', 'Jobs', { state_class: 'measurement' }),
  speed: sensor('tokensPerS', 'Speed', measured('tokens/s')),
  provider: sensor('provider', 'Computed by', diagnostic),
  up: sensor('upBytesPerS', 'Uplink', rate),
  down: sensor('downBytesPerS', 'Downlink', rate),
  cpu: sensor('cpuPercent', 'CPU load', measured('%')),
  gpu: ofHardware(sensor('gpuPercent', 'GPU load', measured('%'))),
  temperature: ofHardware(sensor('hottestC', 'Hottest temperature', measured('°C', 'temperature'))),
  throttled: ofHardware(binary('isThrottled', 'Throttled', throttled)),
  power: ofHardware(sensor('powerW', 'Power', measured('W', 'power'))),
  battery: ofHardware(sensor('batteryPercent', 'Battery', measured('%', 'battery'))),
}

/** The topics that an entity names. */
export interface HomeTopicsOf {
  readonly state: string
  readonly drain: string
  /** The retained states of the device and of its bridge, with wills. */
  readonly deviceState: string
  readonly bridgeState: string
}

const isThere = "{{ 'online' if value_json.state in ['ready', 'draining'] else 'offline' }}"

/**
 * The discovery payload of an entity of `homeEntities`: https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery
 * @param version of the bridge
 */
export function discoveryOf(
  name: string,
  entity: HomeEntity,
  { id, agent, telemetry }: Pick<Device, 'id' | 'agent' | 'telemetry'>,
  fleet: string,
  topics: HomeTopicsOf,
  version: string,
): object {
  const hardware = telemetry?.device
  const model = hardware?.module ?? hardware?.model
  const available = [topics.bridgeState, ...(entity.outlivesDevice ? [] : [topics.deviceState])]
  return {
    name: entity.name,
    unique_id: `brim_${fleet}_${id}_${name}`,
    state_topic: topics.state,
    value_template: `{{ value_json.${entity.field} }}`,
    ...(entity.component === 'switch' ? { command_topic: topics.drain } : {}),
    ...entity.config,
    availability: available.map((topic) => ({ topic, value_template: isThere })),
    availability_mode: 'all',
    qos: 1,
    device: {
      identifiers: [`brim_${fleet}_${id}`],
      name: id,
      ...(model == null ? {} : { model }),
      ...(agent === null ? {} : { sw_version: agent }),
    },
    origin: { name: 'Brim', sw_version: version },
  }
}
