#include "data/story_rules.hpp"

namespace cohort {

// To add to it: give every alternative of a rule a beginning of its own, and mention a character by its first form before any
// other. StoryGrammar::ambiguity(), which a test calls, says where that was forgotten.
const std::string_view kStoryRules = R"(
rule text
  1 <intro> <outing> <plot> <closing>\n\n

rule intro
  4 Once there was a <trait> child named {hero}.
  3 {hero} lived <home>.
  2 Long ago, <home>, there lived a <trait> child whose name was {hero}.
  2 This is the story of {hero}, who was <trait> and <trait>.
rule trait
  3 kind
  3 brave
  2 curious
  2 quiet
  2 cheerful
  1 clever
  1 dreamy
rule home
  3 in a small house near the sea
  2 at the edge of a quiet town
  2 in a village with a tall clock tower
  1 on a boat with green windows
  1 above the bakery

rule outing
  4 One <weather> <daytime>, {hero.he} went {place}.
  2 {hero.He} liked to walk {place} <liked>.
  2 "What a <weather> <daytime>!" {hero.he} said, and ran {place}.
  1 After breakfast, {hero.he} put on {hero.his} <clothes> and went {place}.
rule weather
  3 sunny
  2 windy
  2 cold
  1 foggy
  1 warm
rule daytime
  4 morning
  3 day
  2 afternoon
  1 evening
rule liked
  2 and look at the clouds
  2 when the birds were singing
  1 before everyone else was awake
rule clothes
  2 boots
  2 coat
  1 green scarf

rule plot
  4 <lost>
  4 <rescue>
  3 <learn>
  3 <share>
  2 <storm>
  2 <gift>

rule lost
  1 <lost_have> <lost_gone> <lost_search> <lost_help> <lost_found>
rule lost_have
  3 {hero.He} took {thing} along.
  2 {hero.He} carried {thing}, a gift from {elder}.
  2 In {hero.his} bag there was {thing}.
rule lost_gone
  3 But soon {thing.the} was gone!
  2 While {hero.he} was <playing>, {thing.the} <vanished>.
  1 Then {hero.he} fell asleep, and when {hero.he} woke up, {thing.the} was not there.
rule playing
  2 picking flowers
  2 talking to a snail
  1 chasing a butterfly
  1 jumping over puddles
rule vanished
  2 rolled away
  2 fell into the tall grass
  1 was carried off by the wind
rule lost_search
  3 {hero} looked <everywhere>, but could not find it.
  2 "Where is {thing.the}?" {hero.he} cried, and looked <everywhere>.
  2 {hero.He} searched until {hero.he} was <sad>.
rule everywhere
  2 everywhere
  2 up and down
  1 behind every tree
  1 under each leaf
rule sad
  3 sad
  2 tired
  1 close to tears
rule lost_help
  3 {friend} came by and asked, "Why are you so <sad>?" "I lost {thing.the}," said {hero}. "<offer>," said {friend}.
  3 A <size> {animal} <came>. "<hint>," said the {animal}.
  1 Just then {elder} came along and said, "<hint>."
rule offer
  3 Let us look for it
  2 I will help you
  1 Four eyes see more than two
rule hint
  2 Look again, but this time look down
  2 I saw something over there
  1 Things like to hide where nobody sits
rule size
  4 little
  2 small
  2 gray
  1 brown
  1 very young
rule came
  2 came out of its {animal.home}
  2 had watched everything
  1 pulled at {hero.his} sleeve
rule lost_found
  3 Together they found {thing.the} <hidden>.
  2 At last {hero} saw something <hidden>. It was {thing.the}!
  1 And there it was, <hidden>.
rule hidden
  3 under a bush
  2 behind a big stone
  2 between the roots of a tree
  1 in an empty nest
  1 right beside the path

rule rescue
  1 <rescue_hear> <rescue_see> <rescue_talk> <rescue_act> <rescue_end>
rule rescue_hear
  3 There {hero.he} heard a <sound>.
  2 Suddenly something moved in the <bushes>.
  1 {hero.He} stopped, because somebody was crying.
rule sound
  2 soft cry
  2 strange noise
  1 rustle in the leaves
rule bushes
  2 bushes
  2 shadows
  1 long grass
rule rescue_see
  3 It was a <size> {animal} that <trouble>.
  1 Behind an old log sat a <size> {animal} that <trouble>.
rule trouble
  2 had hurt its leg
  2 was caught in a net
  2 had lost its mother
  1 could not find the way back to its {animal.home}
  1 was shaking with cold
rule rescue_talk
  2 "Please help me," said the {animal}.
  2 "Do not be afraid," said {hero}. "<promise>."
  1 The {animal} looked at {hero.him} with <eyes> eyes.
rule promise
  2 I will not hurt you
  2 We will find a way
  1 Everything will be fine
rule eyes
  2 big
  2 dark
  1 shining
rule rescue_act
  3 {hero} <helped>.
  2 {hero.He} ran to get {friend}, and together they <helped>.
  1 "Come quickly!" {hero.he} called to {elder}. {elder} <helped>.
rule helped
  3 carried the {animal} to its {animal.home}
  2 gave the {animal} some water and a soft bed
  2 wrapped the {animal} in a warm scarf
  1 sang to the {animal} until it was calm
rule rescue_end
  2 "Thank you," said the {animal}. "<thanks>."
  2 From that day on, the {animal} came to see {hero.him} every <daytime>.
  1 Before it left, the {animal} gave {hero.him} {thing}.
rule thanks
  2 You are a true friend
  2 I will never forget this
  1 Come and visit me soon

rule learn
  1 <learn_wish> <learn_try> <learn_advice> <learn_win> <learn_proud>
rule learn_wish
  3 More than anything, {hero.he} wanted to {skill}.
  2 {hero.He} had one wish: to learn how to {skill}.
  2 "I want to {skill}," said {hero}, "but I do not know how."
rule learn_try
  3 The first time, <failed>.
  2 {hero.He} tried <often>, but <failed>.
  1 Everybody else could do it already.
rule failed
  3 it did not work
  2 everything went wrong
  1 {hero.he} gave up too soon
rule often
  2 twice
  2 three times
  1 all week
rule learn_advice
  3 {elder} smiled and said, "<advice>."
  2 "<advice>," said {friend}.
  1 An old {animal} watched {hero.him} for a while. "<advice>," it said.
rule advice
  3 Try again, but slowly
  2 Nobody learns everything in one day
  2 Take a deep breath first
  1 Watch me, and then do the same
  1 Every big tree was once a small seed
rule learn_win
  3 So {hero} tried again, and <when> {hero.he} {skill.did}!
  2 The next <daytime> {hero.he} {skill.did} all alone.
  1 It took a whole <long>, but then {hero.he} {skill.did} better than anyone.
rule when
  2 this time
  2 at last
  1 before the sun went down
rule long
  2 week
  2 month
  1 summer
rule learn_proud
  2 {hero.He} was <proud>.
  2 "I did it!" {hero.he} shouted.
  1 Even the birds seemed to clap.
rule proud
  2 very proud
  2 so happy that {hero.he} danced
  1 too excited to sit still

rule share
  1 <share_have> <share_meet> <share_think> <share_do> <share_taste>
rule share_have
  3 {elder} had given {hero.him} {food}.
  2 For lunch {hero.he} had packed {food}.
  1 {hero.He} had {food} in {hero.his} basket.
rule share_meet
  3 {friend} sat on a bench and looked hungry.
  3 A <size> {animal} smelled {food.the} and came closer.
  1 Beside the path stood {friend}, who had forgotten to bring lunch.
rule share_think
  2 {hero} wanted to keep {food.the}, because it smelled so good.
  2 {hero.He} thought about it for a moment.
  1 "May I have some?" asked a shy voice.
rule share_do
  3 Then {hero.he} gave away half of it.
  2 "<share_offer>," said {hero}, and they ate side by side.
  1 In the end {hero.he} shared {food.the} down to the last bit.
rule share_offer
  2 There is enough for two
  2 Here, take some
  1 It tastes better with a friend
rule share_taste
  2 Nothing had ever tasted so good.
  2 They laughed and licked their fingers.
  1 Even the ants got a crumb.

rule storm
  1 <storm_come> <storm_hide> <storm_wait> <storm_end>
rule storm_come
  3 Dark clouds came over {place.the}, and it began to <rain>.
  2 All at once the wind grew strong.
  1 Far away, thunder rolled.
rule rain
  3 rain
  1 snow
  1 hail
rule storm_hide
  2 {hero} and {friend} hid <shelter>.
  2 {hero.He} ran to hide <shelter>.
  1 A <size> {animal} showed {hero.him} a dry spot <shelter>.
rule shelter
  2 under a big oak
  2 in an empty barn
  1 below the bridge
  1 inside a hollow tree
rule storm_wait
  2 To feel brave, {hero.he} sang a song about <song>.
  2 {hero.He} counted to <number>, and then once more.
  1 "It will pass," {hero.he} whispered.
rule song
  2 the moon
  2 a sailor
  1 soup
rule number
  2 ten
  2 fifty
  1 one hundred
rule storm_end
  3 When the sky cleared, a rainbow stood over {place.the}.
  2 Soon the sun came back, and every leaf was shining.

rule gift
  2 <gift_elder>
  1 <gift_friend>
rule gift_elder
  1 Tomorrow was the birthday of {elder}, and {hero.he} had no present yet. <gift_make> <gift_glad_elder>
rule gift_friend
  1 {hero.He} wanted to surprise {friend}, who had been ill. <gift_make> <gift_glad_friend>
rule gift_make
  3 {hero.He} picked <flowers> and tied them with a ribbon.
  2 So {hero.he} painted a picture of <picture>.
  2 With a few <pieces>, {hero.he} made a <made>.
rule flowers
  3 red poppies
  2 white daisies
  1 seven blue flowers
rule picture
  2 {place.the}
  1 a ship in a storm
  1 a cat on a roof
rule pieces
  2 shells
  2 feathers
  1 pine cones
rule made
  2 necklace
  2 crown
  1 tiny house
rule gift_glad_elder
  2 {elder} laughed and hugged {hero.him}.
  1 "This is the best present of all," said {elder}.
rule gift_glad_friend
  2 {friend} felt better at once.
  1 "Is this for me?" asked {friend}, and smiled for the first time in days.

rule closing
  3 {hero} went home <homeward>.
  2 That night, {hero.he} <slept>.
  2 "<moral>," {hero.he} thought.
  1 And so the day ended.
rule homeward
  3 with a smile
  2 and told {elder} everything
  2 while the stars came out
  1 for supper
rule slept
  2 slept very well
  2 dreamed of {place.the}
  1 lay awake and listened to the rain
rule moral
  2 It is good to have friends
  2 Small steps lead far
  1 Tomorrow I will come again
  1 I am not as small as I was this morning
)";

}  // namespace cohort
