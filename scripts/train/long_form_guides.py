"""What the guides of long_form.py say: families of tasks, their subjects, and what place, company and circumstance add.

A family's subject is a line of phrases, one per field, which its sentences use. The letter before a sentence is the shortest
answer that has it: S short, N normal, L long.
"""

FAMILIES: dict[str, dict] = {
    "grow": {
        "do": "grow {x}",
        "fields": "x seed sun earth deep water weeks foe ward sign harvest use",
        "lines": """
S If you would like to grow {x}, you will need {seed} and a place where there is {sun}.
S Before you do anything else, you should bring {earth} to it, and there must be enough of it for all of them.
S Then put them into the ground about {deep} under it, with a hand between each of them and the next.
N From then on they should be given water {water}, since they will be ill if they are too wet and also if they are too dry.
L It may be as much as {weeks} before there is anything to be seen of them, so you do not have to be afraid if it is still so quiet there.
N The worst that could happen to them is {foe}, and what you can do against it is to put {ward} there.
S You will know that they are ready for you as soon as {sign}.
L You should not pull at any of them with your hands, but rather {harvest}.
S When you have got all of them into the house, you can {use}.""",
        "subjects": """
tomatoes | a handful of seeds | sun from morning until evening | warm dark earth | a finger | every morning | two weeks | the cold of the night | a sheet over them | they are red all the way round | cut them off with a knife | eat them with salt and bread
beans | ten large beans | a tall fence | soft earth from the garden | two fingers | every other day | nine days | the birds | a man of straw beside them | you can hear them crack in your hand | pick them from below to the top | cook them with a piece of meat
roses | a young rose from the store | air on every side of it | earth with old leaves in it | an arm | twice in a week | half a year | the white worms | a ring of ashes around them | the first of them is half open | cut the stem above a leaf | set them in a glass by the door
carrots | a bag of tiny seeds | sand and sun | light earth without stones | a nail | when the top is dry | three weeks | the rabbits | a low wall around them | the orange heads come up out of the ground | lift them with a fork | put them in a box full of sand
onions | thirty small onions | sun and a little wind | earth from last year | a thumb | only in dry weeks | a month | the rain in summer | a roof of boards over them | the green leaves have fallen over | turn them up with a spade | hang them in the kitchen on a string
potatoes | some old potatoes with eyes | room for a long row | a hill of loose earth | a foot | once in a week | twenty days | the yellow beetles | a bucket of soap beside them | the leaves are brown and dead | dig them out with a fork | bake them in the fire
strawberries | six young plants | sun on the south side | earth with sand in it | a leaf | in the evening | one spring | the snails | straw under them | they smell sweet from far away | take them with the green leaf | make a cake with cream
apples | a young apple tree | space for a tall tree | deep heavy earth | a leg | only in the first summer | four years | the frost in May | a coat of straw around it | they fall at the first touch | turn them until they come off | press them and drink the juice
sunflowers | the seeds of one flower | nothing but sky above | earth from beside the barn | a knuckle | with a full can at noon | eight days | the storm | a strong stick beside them | their heavy heads look at the ground | saw through the stem | feed the birds with the seeds
pumpkins | three fat seeds | room on all sides | a heap of horse dung | a finger and a half | with a bucket a day | five days | the mice | a board under each of them | they sound hollow when you knock | cut them with a long stem | make soup and a lantern
grapes | a branch of an old vine | a warm white wall | stony earth | a hand | less than once in a month | three summers | the wasps | a net over them | you can see the stones inside | cut them with scissors | press them into wine
mushrooms | a box of white threads | no light at all | old straw and dung | an inch | with a wet cloth | eighteen days | the flies | a thin net over them | their hats are as wide as a coin | turn them out of the ground | fry them in butter""",
    },
    "cook": {
        "do": "cook {x}",
        "fields": "x ing prep heat add stir time sign fault cure serve keep",
        "lines": """
S For {x} you will need {ing}, and there should be enough of it for all who are to eat with you.
S Before you do anything with the fire, you should {prep} and then put all of it to one side.
S Then {heat}, but do not go away from it, because it must not be too hot.
N While you are still at it, you may {add}, a little of it at a time and not all of it at once.
L You ought to {stir} now and then, so that none of it will be burned by the time it is done.
S It has to be left there for about {time}, until you can see that {sign}.
N If it should be {fault} by then, you can still do something about it with {cure}.
S As soon as it is ready, {serve}, and all of you should eat it while it is as it ought to be.
L What there is left of it may be kept {keep}, but for no more than a day or two.""",
        "subjects": """
bean soup | white beans and an onion | leave the beans in water for a night | boil them in a big pot | throw in salt and pepper | turn the beans from below | two hours | the beans are soft | too thin | a potato cut small | pour it into deep bowls | in the cold pot
apple pie | eight apples, flour and butter | cut the apples into thin pieces | warm the oven | scatter sugar and cinnamon on top | turn the pie round | one hour | the crust is golden | too sour | some honey | bring it with cold cream | under a bowl
bread | flour, water and yeast | beat the dough with your fists | heat the stone | brush the top with milk | look through the door | forty minutes | the top is brown and hard | too flat | more yeast next time | cut it while the steam rises | in a linen bag
pancakes | eggs, milk and flour | beat the eggs with the milk | melt butter in a pan | drop in the dough with a spoon | shake the pan | three minutes | little holes come up | too thick | a cup of milk | pile them up with jam between | between two plates
fish stew | fish and red tomatoes | take the bones out of the fish | fry the heads in oil | pour in white wine | push the pot to and fro | twenty minutes | the fish turns white | too salty | a slice of bread | ladle it over toast | in the snow
fried rice | rice and two eggs | wash the rice three times | fry garlic in a wide pan | mix in peas and ham | lift it with a fork | ten minutes | each grain stands alone | too dry | a splash of broth | heap it on warm plates | in a tin with a lid
chicken with lemon | a fat chicken and three lemons | rub the chicken with salt | roast it with its breast down | squeeze the lemons over it | wet it with its own fat | ninety minutes | the leg comes off by itself | too pale | a hotter fire | carve it at the table | off the bone
chocolate cake | dark chocolate and six eggs | beat the whites to snow | melt the chocolate over steam | sift in the nuts and flour | leave the door shut | half an hour | a stick comes out clean | too bitter | vanilla sugar | dust it with sugar | under a glass bell
vegetable curry | roots, spices and coconut milk | peel and slice the roots | toast the spices in a dry pan | pour in the coconut milk | scrape along the sides | thirty minutes | the roots fall apart | too hot | a spoon of yogurt | offer it with flat bread | in a jar
cheese noodles | wide noodles and old cheese | grate the cheese | boil the noodles in salt water | scatter the cheese between them | toss it with two spoons | eight minutes | long threads hang from the fork | too greasy | a green salad | crown it with fried onions | in a deep dish
berry jam | a bucket of berries and sugar | pick out leaves and stems | boil the berries in a copper pot | rain in the sugar | skim off the foam | a quarter of an hour | a drop stays on the plate | too runny | the juice of a lemon | fill it into hot jars | in the cellar
roast potatoes | potatoes, oil and rosemary | halve the potatoes | heat the oil on a tray | strew rosemary over them | shake the tray | fifty minutes | the edges are crisp | too soft | ten minutes under the grill | tip them into a basket | in a paper bag""",
    },
    "make": {
        "do": "make {x}",
        "fields": "x mat shape cut join wait finish fault why test life store",
        "lines": """
S In order to make {x}, you will need {mat}, and it does not matter if they are old.
S Before you cut into any of it, you should draw {shape} on it, so that both of the sides will be the same.
S After that you can {cut}, but do not be too quick about it.
S Then {join}, and hold it there with both of your hands until it can stand without you.
N You must not use it for {wait}, because it would not be strong enough before that.
N When you have got as far as that, you could {finish}, if you would like it to be more beautiful.
L If it should {fault}, then that is because of {why}, and you will have to do this part over again.
S At the end of it all you should {test}, so that you can see for yourself if it is any good.
L It will be with you for {life} if you keep it {store}.""",
        "subjects": """
a kite | paper and two sticks | a large diamond | cut along the lines | tie the sticks into a cross | an hour | add a tail of red cloth | fall on its nose | a tail that is too short | run against the wind | a summer | flat under the bed
a bird house | six boards and nails | a round door | saw the boards | nail the walls to the floor | one night | paint the roof green | let the rain in | a crack in the roof | hang it in a tree | seven winters | away from cats
a candle | wax and a string | a star | melt the wax in a pot | pour it around the string | half a day | press flowers into the side | burn on one side | a crooked string | light it in a dark room | twelve evenings | in a cool drawer
a basket | twenty long twigs | a circle | soak the twigs in the bath | weave them in and out | two days | wind a ribbon around the edge | lean to the left | twigs that were too dry | carry stones in it | ten years | in a dry place
a wooden table | a door and four legs | the place of each leg | saw the legs to one length | screw them to the corners | a day | rub it with oil | shake | one leg that is too long | sit on it | a whole life | away from the stove
a rag doll | cloth and wool | a body with arms | cut out two bodies | sew them back to back | an afternoon | give it button eyes | lose its wool | a seam that is too loose | throw it in the air | a childhood | in a warm bed
a paper lantern | thin paper and wire | a moon | bend the wire into a ring | glue the paper round the ring | four hours | paint shadows of animals on it | catch fire | a candle that is too near | walk with it at night | one autumn | in a hat box
a drum | a barrel and a skin | a wide circle | trim the skin | stretch it over the barrel | three nights | burn signs into the wood | sound dull | a skin that is too wet | beat it with both palms | thirty years | beside the stove
a soap box car | a box and four wheels | two axles | drill holes for the axles | push the wheels on | a morning | write a number on the front | pull to the right | a wheel that is loose | roll down a low hill | a few races | under the stairs
a warm scarf | three balls of wool | the pattern of squares | wind the wool | knit row after row | a week | knot a fringe at each end | curl up | rows that are too tight | wear it in the snow | five winters | with cedar wood
a model ship | a block of pine | the line of the deck | carve the hull | set the mast in the middle | six hours | sew a blue sail | tip over | a mast that is too heavy | float it in the bath | a long voyage | on a shelf
a photo book | pictures and thick card | a frame | trim the pictures | glue them in by date | a rainy day | write names under them | bulge | too much glue | show it to your family | three generations | behind glass""",
    },
    "mend": {
        "do": "mend {x}",
        "fields": "x cause look tools first fix wait test worse keep",
        "lines": """
S When you want to mend {x}, you should know that it is most often because of {cause}, and that can be put right by you.
S First of all {look}, because you have to find out where it is before you can do anything about it.
N For this you will need {tools}, and you could ask one of your neighbors for them if you do not have any.
S Then {first}, so that it will not be in your way.
S After this you can {fix}, and you should not stop with it until you have been all around it.
N It must then be left alone {wait}, even if you would like to have it back at once.
S To find out whether you have done it as you should, {test}.
L If it is still no better than it was before, then you will have to {worse}.
L From now on you should {keep}, so that it does not happen to you again.""",
        "subjects": """
a broken chair | a leg without glue | turn the chair on its head | glue and a rope | pull the leg out | fill the hole with glue | until the morning | sit on it and rock | buy a new leg | lift it when you move it
a torn coat | a nail in a door | lay the coat under a lamp | a needle and thread | cut off the loose threads | sew it from the inside | while the iron gets hot | pull at the cloth | put a pocket over it | hang it on a hook
a flat tire | a piece of glass | hold the tire under water | a patch and sandpaper | lever it off the wheel | press the patch on | for five minutes | pump it up until it sings | fit a new tube | ride around the glass
a leaking roof | a slipped tile | climb up with a rope | a hammer and tiles | sweep away the moss | slide a tile into the gap | for one rain | pour a bucket over it | call the roofer | look at it each autumn
an old clock | dust in the wheels | open the back | a feather and oil | lift out the hands | oil the wheels | for a quarter of a day | compare it with the radio | bring it to a master | wind it on Sundays
a dripping tap | a worn washer | shut off the water | a wrench | unscrew the handle | lay in a new washer | for an hour | count the drops | change the tap | close it gently
a cracked cup | hot tea in a cold cup | run a finger along the crack | fine glue and tape | wash the halves | join the halves | for two nights | fill it with milk | plant a flower in it | warm it first
a stuck door | wet wood | slide paper along the edge | a plane and candle wax | lift it off the hinges | shave the edge | for a dry day | swing it with one finger | deepen the frame | paint the bare wood
a dead radio | a broken wire | shake it by your ear | solder and pliers | pull the plug | solder the wire | until it is cool | turn through the stations | try another battery | carry it by the handle
a ripped book | a thin spine | leaf through to the gap | paste and a brush | iron the pages flat | paste a strip on the spine | under a heavy stone | open it in the middle | bind it in leather | read it on a table
a squeaky floor | a loose board | walk with bare feet | screws and chalk | roll up the carpet | screw down the board | for a night of silence | dance across it | lift the board | dust it with chalk
a bent fence | last winter's storm | pull at the posts | a spade and gravel | untie the wire | ram gravel round the posts | over the weekend | lean against it | set a new post | cut back the bushes""",
    },
    "clean": {
        "do": "clean {x}",
        "fields": "x dirt out stuff how corner not dry often keep sign",
        "lines": """
S If you want to clean {x}, you will have to begin with {dirt}, because that is the worst of it.
S Before you start with it, {out}, so that you can get at it from every side.
S Then take {stuff} and {how}, and do this over and over again until there is no more of it to be seen.
N You should look at {corner} as well, since that is where it is most often forgotten.
N But you must never use {not} for it, as that would do more against it than for it.
S After this it has to {dry}, and it should not be used by anyone until then.
L It is enough to do all of this {often}, unless there are more of you than there are of us.
L If you would like it to be that way for longer, {keep}.
S You will know that you are done with it when {sign}.""",
        "subjects": """
the kitchen | the fat above the stove | carry out the chairs | hot water and soap | wash the walls downwards | the top of the cupboard | steel wool | dry with the window open | once a month | cook with a lid | the tap shines
windows | the dust of the street | take down the curtains | vinegar and newspaper | wipe in small circles | the corners of the frame | your sleeve | dry out of the sun | before each season | wax the glass | birds fly against it
a carpet | the sand below it | roll it up and beat it | snow or salt | brush with the thread | the part under the sofa | boiling water | hang over a rail | in spring and autumn | leave your shoes outside | its colors come back
shoes | the mud on the soles | pull out the laces | a soft brush and wax | rub from toe to heel | the seam | a hot stove | rest on newspaper | every Sunday | spread fat on them | you see your face in them
silver spoons | the black spots | spread them on a towel | chalk and water | rub along the handle | the pattern | sand | be dried with wool | before a feast | wrap them in blue cloth | they flash
an oven | the burnt crust | lift out the trays | soda and a sponge | scrub from the back | the rubber at the door | a knife | stand open all night | after each roast | lay foil below | it smells of nothing
a bathroom | the gray lime | clear the shelf | lemon and a cloth | scrub the tiles in rows | the gap behind the tub | bleach with acid | air for an hour | each Saturday | wipe the glass after the shower | the mirror is clear
a fish tank | the green slime | move the fish to a bowl | a scraper and fresh water | scrape the glass upwards | the pipe of the pump | soap | settle for a day | every third week | feed the fish less | you can count the fins
a bicycle | the old oil | turn it upside down | a tooth brush and petrol | scrub link by link | the hub | a strong hose | drip off in the shade | at the end of each month | fit a mud guard | the wheels hum
a piano | the dust between the keys | close all drinks away | a dry brush | stroke from black to white | the pedals | wet rags | rest with the lid up | twice a year | shut the lid after playing | the keys gleam
a fireplace | the cold ashes | lay out old sheets | a shovel and a broom | sweep down from the top | the iron grate | a vacuum cleaner | stand until the dust is down | when winter ends | burn only dry wood | the bricks are red
a car | the dead flies in front | take out the mats | a sponge and two buckets | wash from the roof to the wheels | the rim of the doors | the kitchen sponge | drip in the shade | on the first of the month | park under a roof | the neighbors stare""",
    },
    "care": {
        "do": "take care of {x}",
        "fields": "x every food bed walk wash ill cure never love bond",
        "lines": """
S If you are going to have {x}, you must know that it needs you {every}, and not only when you would like to be with it.
S It should be given {food}, and there must be some water in front of it by day and by night.
S For the night it has to have {bed}, where it will be out of the wind and the rain.
N It is also up to you to {walk}, or else it will not be with you for very long.
L You ought to {wash} about once in a month, even if it does not let you do so at first.
S It is more than likely that it is ill if {ill}, and then you will have to {cure}.
N You should never {never}, because it would be afraid of you from then on.
L What it likes above all the rest is {love}, and you could do that with it when it has been good.
S If you do all of this for it, it will {bond} before the year is over.""",
        "subjects": """
a dog | three times a day | meat and rice | a blanket by the door | walk with it in the fields | brush its coat | its nose is hot and dry | call the doctor | hit it with a stick | a ball in the grass | guard your house
a cat | each morning and evening | fish and a little milk | a basket on a high place | let it hunt at night | comb its back | it hides under the bed | keep it warm | pull its tail | a string on the floor | sleep on your feet
a horse | before the sun is up | hay and oats | a dry stable with straw | ride it over the hills | wash its legs | it will not stand up | walk it in a circle | shout behind it | an apple from your hand | come when you whistle
a hen | at sunrise and sunset | corn and green leaves | a high pole in a house | shut the door against the fox | dust its feathers | its comb is pale | put garlic in its water | chase it | a bath of dry sand | lay an egg each day
a rabbit | twice a day | hay and carrots | a box full of straw | let it run in the garden | cut its nails | it does not eat | warm its belly | lift it by its ears | fresh clover | jump on your knee
a goldfish | every second day | dry flies | a cave of stones | change a third of its water | wipe the glass | it swims on its side | put it in salt water | knock on the glass | a plant to hide in | know your face
a parrot | from morning to night | nuts and fruit | a cage with a cloth | let it fly in the room | spray it with water | it pulls out its feathers | talk to it for hours | leave it alone in the dark | a bell and a mirror | say your name
a goat | in all weathers | leaves and bark | a shed on a hill | take it to the bushes | trim its feet | its belly is round and tight | rub it with oil | tie it with a short rope | a rock to climb | give you milk
a turtle | in summer more than in winter | lettuce and worms | a box of cool earth | set it in the sun | bathe it | its eyes are shut in May | carry it to the light | turn it on its back | a red flower | follow your shoes
a pony | after school each day | grass and a carrot | a small barn | lead it along the road | clean its feet | it coughs | wet its hay | sit on it when it is tired | your hand behind its ear | carry you to school
a bee hive | from spring to autumn | sugar when there are no flowers | a wooden box in the south | look for the queen | scrape the boards | dead bees lie in front | burn the old wax | breathe on it | a field of clover | fill nine jars
a duck | at dawn | bread and snails | a hut by the pond | lead it to the water | rinse its pan | it limps | bind its foot | bring it near the dog | rain in July | walk behind you""",
    },
    "learn": {
        "do": "learn {x}",
        "fields": "x first where drill fault cure teacher time able next goal",
        "lines": """
S Whoever would like to learn {x} should begin with {first}, as all of the rest will come out of that.
S You should do it {where}, because there is no one there who could laugh at you.
S From then on {drill} every day, and it is better to do so for a short time than not at all.
N At first you will {fault}, but so did all of those who are now so good at it.
N What will do the most against that is {cure}.
L If you can, you should ask {teacher} to be with you and to tell you what it is like for others.
S After about {time} you should be able to {able} without having to think about it.
L From then on you may try {next}, but you should not do it before that.
S When you can {goal}, you will know what all of this was for.""",
        "subjects": """
to draw | a cup on a table | in front of a window | draw your own hand | draw what you know and not what you see | turning the picture over | a painter | ten weeks | draw a face | shadows | make your mother smile
to sing | a slow breath | in the bath | sing up and down the stairs | run out of air | lying on the floor | someone from the choir | three months | hold one note for long | a song with two voices | sing a child to sleep
to dance | the beat | with closed curtains | count to eight with your feet | look down | a mirror | your grandmother | six evenings | turn in a circle | to lead | dance at a wedding
to write stories | one true sentence | early in bed | fill one page | wait for a better idea | a kitchen clock | a reader | a year | end a story | a story without a hero | make a stranger cry
to play the guitar | three chords | on a park bench | change from chord to chord | have sore fingers | cold water | an older player | two months | play by the fire | a solo | play with a band
to speak Italian | hello and thanks | at the ice cream shop | learn five words | mix up he and she | reading aloud | a cook from Rome | half a year | order a meal | old poems | tell a joke
to play chess | the king and the pawns | against yourself | solve one riddle | lose your queen | sitting on your hands | an old man in the park | forty games | see two moves ahead | a game without a clock | beat your father
to swim | floating on your back | in a warm lake | kick along the edge | swallow water | breathing out slowly | a life guard | nine lessons | cross the pool | diving | swim to the island
to ride a bicycle | standing on one pedal | on an empty road | roll down a slope | fall to the left | looking far ahead | a big brother | one weekend | ride with one hand | a steep hill | ride to the sea
to cook | a boiled egg | in your own kitchen | taste everything twice | burn the onions | a smaller fire | your aunt | five Sundays | make soup from nothing | bread | feed six guests
to sew | a straight line | beside a lamp | sew on a button | prick your thumb | a thimble | a tailor | four shirts | shorten trousers | a dress | wear your own coat
to tell jokes | a good listener's face | on the bus | tell one joke | laugh before the end | a pause | a clown | thirty jokes | hear the silence | your own jokes | make a judge laugh""",
    },
    "plan": {
        "do": "plan {x}",
        "fields": "x know ahead book ask meal food game rain forget end",
        "lines": """
S Before you can plan {x}, you have to know {know}, because all of the rest will be up to that.
S You should begin with it about {ahead} before the day, or else there will not be enough time for you.
N The first of all that has to be done is to {book}, since there are others who would like to have it too.
S Then {ask}, and let all of them know when they should be there and what they ought to have with them.
S For {meal} it would be best to have {food}, of which there can never be too much.
N So that none of them will have to be there without anything to do, you could {game}.
L If it should rain on that day, you can still {rain} with all of them.
L You must not forget {forget}, although that is what most of us do.
S When it is all over, {end}, and then you can be as happy about it as they were.""",
        "subjects": """
a birthday party | how many guests will come | three weeks | order the cake | write cards to your friends | the afternoon | cake and cold juice | hide a treasure in the house | play cards | the candles | bring everyone to the door
a picnic | who has a car | two days | find a meadow with shade | call your cousins | lunch | cold chicken and plums | throw a ball over a rope | eat in the barn | the salt | carry home the bottles
a wedding | what the bride wants | ten months | rent a hall | invite both families | the evening | roast lamb and wine | ask the uncle to play the fiddle | dance indoors | the rings | write thanks by hand
a trip to the sea | when the trains leave | a month | reserve two rooms | tell your brothers | breakfast | fresh fish and rolls | build a castle of sand | visit the light house | a towel | shake the sand from the shoes
a school play | who can sing | four months | choose the story | give out the roles | the break | cookies and tea | paint the forest together | move it to the gym | a whisperer | bow three times
a night in a tent | where the river is | one week | borrow the tent | persuade your sister | supper | sausages on sticks | name the stars | tell ghost stories | matches | cover the fire with earth
a garden market | what your neighbors grow | six weeks | ask for tables | hang signs on the trees | noon | onion cake and cider | guess the weight of a pumpkin | put up umbrellas | small coins | share the money
a concert at home | which songs you know | twelve days | tune the piano | ring at every door | the pause | cheese and grapes | let a child conduct | sing louder | a chair for the old | play one song more
a move to another house | how wide the doors are | eight weeks | hire a truck | beg strong friends | the end of the day | pizza from the box | race with empty boxes | lay boards over the mud | the keys | sleep on the floor
a walk in the mountains | how old the youngest is | five days | buy a map | wake them at four | the top | bread and dark chocolate | count the bells of the cows | turn back at the hut | a second pair of socks | hang the boots by the stove
a class meeting | where all of them live now | half a year | get the old hall | search for the lost ones | dinner | what the school cook made | show pictures from then | dance in the corridor | the old teacher | fix the next date
a winter feast | what the children dream of | forty days | cut a tree | gather your whole family | the long night | goose with red cabbage | sing in the dark | bake apples | the lonely neighbor | burn the branches""",
    },
}

# Each: phrase of the request; what a short answer says about it; what a longer one adds.
PLACES = """
in a small room | In a small room you will have to put away all that you do not need, or there will be no space for you. | You should also open the window from time to time, so that the air in there will be fresh.
in the garden | In the garden you can be as loud as you like, but you should first look up at the sky. | Whatever you have there must be brought back into the house before it is dark.
in the city | In the city you can buy all that you need for it, because there is a shop around every corner. | Do it as early in the morning as you can, since there will be too many people about after that.
in a village | In a village you would do best to ask the old people, for they have been doing it since they were young. | What you do not have yourself could be borrowed from a farmer, if you are friendly to him.
by the sea | By the sea there is so much wind that you have to lay a stone on whatever is light. | The salt that is in the air there is not good for it, so wash it off as soon as you can.
in the mountains | In the mountains it can be cold on any day of the year, so you should have a fire near you. | It is so far from there to the next shop that you ought to bring more than you think you will need.
at school | At school you will have to ask the teacher before you begin, since there are rules for most of it. | It should all be over before the bell rings, because no one will stay after that.
at home | At home you have all of the time that there is, so you may do it at your own speed. | Let the others in the house know what you are about, so that they will leave you in peace.""".strip()
COMPANY = """
with a child | A child can do much of this with you, but what is sharp or hot should be only in your own hands. | Do not be angry if the child breaks something, because that is how all of us have learned.
with a friend | Since there are two of you, your friend could read all of this out to you while you are at it. | After half of it you should change places with your friend, so that both of you can do it.
on my own | As you are on your own, you ought to have all of it within reach, for there is no one to bring it to you. | If you are too tired to go on with it, then leave it until tomorrow.
for my mother | Since it is for your mother, you should find out what she likes before you do any of it. | Do not let her know what it has cost you, but just look at her face.
with my brother | Your brother will want to do it in his own way, so you should share out the work before that. | If the two of you quarrel, it is better to stop and to drink a cup of tea with him.
for a sick friend | It is for someone who is sick, so all of it has to be done with clean hands. | Sit with your friend for a while after that, because it is the company that will help the most.
with my class | With so many in a class, you should make groups of four, and each of them must have a leader. | Walk from one group to the other, and be there for those who are slow.
with my neighbor | Your neighbor may know more about it than you do, so let him talk before you do. | At the end of it you should give him half of what there is, as he would also do for you.""".strip()
CIRCUMSTANCES = """
with very little money | If you have very little money, you can use what others throw away, for it is often as good as new. | Write down all that you have paid, so that you will not be surprised by it at the end.
in a hurry | When you are in a hurry, you may leave out whatever is only for the eye. | Have a clock where you can see it, and do not answer the phone until you are done.
for the first time | As it is your first time, you should try it out on a small piece before you do the rest. | It will not be perfect, but the second time it will be twice as easy for you.
in winter | In winter the days are so short that you ought to start with it before noon. | You should wear gloves for as much of it as you can, because you are no use with cold fingers.
in summer | In summer you should do most of it before the heat, and rest in the shade after that. | There has to be a bottle of water beside you, and it should be empty by the end of it.
without any noise | If there must not be any noise, then you should lay a thick blanket under all that you have there. | Take off your shoes, and speak with your hands and not with your mouth.
with one hand | With only one hand you will need something heavy that can hold it for you. | It will take you twice as long, but there is nothing in it that cannot be done with one.
with almost no tools | If you have almost no tools, a knife and a string can do most of what the others do. | Look in the kitchen too, since a spoon is as good as a hammer for some of it.""".strip()
